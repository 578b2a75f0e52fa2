"""The policy backbones by name: one place that makes them and reads them from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from coda.policy.base import ChunkPolicy, PolicyError
from coda.policy.config import PolicyConfig
from coda.policy.flow import FlowChunkPolicy, FlowPolicy
from coda.policy.image import ImageChunkPolicy
from coda.policy.store import read_format
from coda.sim.cameras import View
from coda.sim.errors import UnknownName

BACKBONES: Mapping[str, type[FlowPolicy]] = MappingProxyType(
    {kind.backbone: kind for kind in (FlowChunkPolicy, ImageChunkPolicy)}
)
"""Every backbone that this version carries out."""


def make_policy(
    backbone: str, config: PolicyConfig, *, seed: int = 0, device: str = "cpu"
) -> ChunkPolicy:
    """A fresh policy. Raises `UnknownName` for a backbone that is not there."""
    return _known(backbone)(config, seed=seed, device=device)


def load_policy(path: Path, *, device: str = "cpu") -> ChunkPolicy:
    """Read a policy of any backbone. Raises `PolicyError` in one line."""
    found = read_format(path)
    for kind in BACKBONES.values():
        if kind.format == found:
            return kind.load(path, device=device)
    formats = ", ".join(repr(kind.format) for kind in BACKBONES.values())
    raise PolicyError(f"{path}: format {found!r} is no policy's; this version reads {formats}.")


def policy_label(backbone: str, config: PolicyConfig) -> str:
    """What a policy is and sees, for people, e.g. ``flow, privileged state``."""
    if _known(backbone) is not ImageChunkPolicy:
        return f"{backbone}, privileged state"
    return f"{backbone}, vision ({View(size=config.pictures.size).words})"


def _known(backbone: str) -> type[FlowPolicy]:
    if backbone not in BACKBONES:
        raise UnknownName("backbone", backbone, BACKBONES)
    return BACKBONES[backbone]
