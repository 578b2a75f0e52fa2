"""Where tensors live: resolved once, said aloud, never changed behind the caller's back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from coda.sim.errors import CodaError, UnknownName

DeviceName = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "bfloat16"]


class DeviceError(CodaError):
    """The device that was asked for is not there."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A resolved device and the sentence that says so."""

    torch: torch.device
    said: str
    """For the terminal and the run's record, e.g. ``cpu (auto: torch sees no CUDA device)``."""


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Context in which matrix products run in a precision; weights and sums stay float32.

    On a processor without matrix units bfloat16 is the slower of the two; see
    ``python -m coda.bench.policy_throughput``.
    """
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")


def resolve_device(name: str) -> Device:
    """Resolve ``auto | cpu | cuda``. Raises `DeviceError` if cuda is asked for and absent."""
    if name not in get_args(DeviceName):
        raise UnknownName("device", name, get_args(DeviceName))
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise DeviceError(
            f"device = 'cuda', but torch {torch.__version__} sees no CUDA device; "
            "use device = 'cpu' or 'auto'."
        )
    if name == "cpu" or (name == "auto" and not has_cuda):
        why = " (auto: torch sees no CUDA device)" if name == "auto" else ""
        return Device(torch=torch.device("cpu"), said=f"cpu{why}")
    card = torch.cuda.get_device_name(0)
    return Device(
        torch=torch.device("cuda"), said=f"cuda: {card}{' (auto)' if name == 'auto' else ''}"
    )
