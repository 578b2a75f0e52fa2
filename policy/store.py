"""Networks on disk: safetensors for the numbers, JSON beside it for what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from coda.policy.base import PolicyError


def _files(path: Path) -> tuple[Path, Path]:
    stem = path.with_suffix("") if path.suffix in (".safetensors", ".json") else path
    return stem.with_name(stem.name + ".safetensors"), stem.with_name(stem.name + ".json")


def write_module(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write both files, each by renaming a finished one: a kill leaves old or new, not half."""
    weights, sidecar = _files(path)
    weights.parent.mkdir(parents=True, exist_ok=True)
    part = weights.with_name(weights.name + ".part")
    save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, part)
    part.replace(weights)
    part = sidecar.with_name(sidecar.name + ".part")
    part.write_text(json.dumps(meta, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    part.replace(sidecar)


def _meta(path: Path) -> tuple[Path, Path, dict[str, Any]]:
    """Both files and the sidecar's content. Raises `PolicyError` for what is not there."""
    weights, sidecar = _files(path)
    for file in (weights, sidecar):
        if not file.is_file():
            raise PolicyError(f"{file} does not exist; give the path that was passed to save.")
    try:
        meta = json.loads(sidecar.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise PolicyError(f"{sidecar} is not JSON ({error}); save the policy again.") from None
    return weights, sidecar, meta if isinstance(meta, dict) else {}


def read_format(path: Path) -> str:
    """What kind of network the files hold. Raises `PolicyError`."""
    return str(_meta(path)[2].get("format"))


def read_module(
    path: Path, kind: str, version: int, expected: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the sidecar and the tensors.

    Raises:
        PolicyError: a file is missing or broken, of another kind or version, or an `expected`
            entry of the sidecar differs.
    """
    weights, sidecar, meta = _meta(path)
    found = meta.get("format"), meta.get("version")
    if found != (kind, version):
        raise PolicyError(
            f"{sidecar}: format {found[0]!r} version {found[1]!r}; this version reads {kind!r} "
            f"version {version}. Train it again, or install the version that wrote it."
        )
    for key, value in expected.items():
        if meta.get(key) != value:
            raise PolicyError(
                f"{sidecar}: {key} differ from this version's; train the policy again."
            )
    try:
        return meta, load_file(weights)
    except SafetensorError as error:
        raise PolicyError(f"{weights} is not readable ({error}); save the policy again.") from None
