"""What the state policies see: gripper, then one token per role, flattened in a fixed order.

Everything horizontal is relative to the gripper or to the controller's commanded pose, so that a
motion learned at one place means the same at another; the absolute position enters once, as the
gripper's. Distractors are sorted by their distance to the target: their order in the scene means
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coda.sim.frame import N_ROLES, SimFrame
from coda.sim.predicates import grasp_point, grasp_width, grasp_yaw_error, vertical_half
from coda.sim.roles import role_index

Array = npt.NDArray[np.float64]

TEXT_DIM = 384
"""Length E of a sentence embedding."""
N_DISTRACTORS = 3
FINE_M = 0.02
"""Scale of the fine offsets [m]."""

_TARGET = role_index("target")
_RECEPTACLE = role_index("receptacle")

_DISTRACTOR: tuple[tuple[str, int, float], ...] = (
    ("present", 1, 0.5),
    ("from gripper", 3, 0.1),
    ("half size", 3, 0.02),
    ("touched", 1, 0.3),
)
FEATURES: tuple[tuple[str, int, float], ...] = (
    ("gripper xy", 2, 0.2),
    ("gripper z", 1, 0.05),
    ("gripper lag", 3, 0.01),
    ("gripper yaw", 2, 0.3),
    ("gripper yaw lag", 1, 0.05),
    ("gripper velocity", 3, 0.1),
    ("gripper width", 1, 0.01),
    ("gripper command", 1, 0.5),
    ("target present", 1, 0.5),
    ("target from gripper", 3, 0.05),
    ("target from command", 3, 0.05),
    ("target from command, fine", 3, 0.3),
    ("target grasp yaw", 2, 0.2),
    ("target grasp yaw from command", 1, 0.2),
    ("target half size", 3, 0.01),
    ("target touched left, right", 2, 0.3),
    ("target underside", 1, 0.03),
    ("target tilt", 1, 0.1),
    ("target gap", 1, 0.01),
    ("receptacle present", 1, 0.5),
    ("receptacle from gripper", 3, 0.1),
    ("receptacle from target", 3, 0.1),
    ("receptacle from target, fine", 3, 0.3),
    ("receptacle half size", 3, 0.02),
    ("receptacle touches target", 1, 0.3),
    *(
        (f"distractor {i} {name}", size, floor)
        for i in (1, 2, 3)
        for name, size, floor in _DISTRACTOR
    ),
)
"""(name, length, floor of its scale in its own unit) of every feature, in order.

The floor is what a change must reach to matter to the network as much as a typical change of a
feature that does vary: a factor constant in the data must not explode when it first moves.
"""
OBSERVATION_DIM = sum(size for _, size, _ in FEATURES)
"""Length D of an observation vector."""


def scale_floor() -> npt.NDArray[np.float32]:
    """Floors of the features' scales, (D,)."""
    return np.concatenate([np.full(size, floor, np.float32) for _, size, floor in FEATURES])


@dataclass(frozen=True)
class Observation:
    """A batch of observations."""

    vector: Tensor
    """(B, D) float32, not normalised: metres, radians, metres per second."""
    text: Tensor
    """(B, E) float32 sentence embedding of the instruction."""

    @property
    def batch(self) -> int:
        """Number of observations B."""
        return int(self.vector.shape[0])

    def __getitem__(self, index: Any) -> Observation:
        """Select rows by an index tensor, a mask or a slice (the batch axis stays)."""
        return Observation(self.vector[index], self.text[index])

    def to(self, device: torch.device) -> Observation:
        """The same observations on another device."""
        return Observation(self.vector.to(device), self.text.to(device))


def yaw_of(rot: Array) -> Array:
    """Direction in the table plane that gripper rotations (B, 3, 3) open along, (B,) [rad]."""
    out: Array = np.arctan2(rot[:, 1, 1], rot[:, 0, 1])
    return out


def _column(value: Array) -> Array:
    return value[:, None]


def _fine(offset: Array) -> Array:
    """Offsets [m] squashed at 2 cm: millimetres near zero count as much as decimetres far off."""
    return np.asarray(np.tanh(offset / FINE_M))


def _distractors(frame: SimFrame) -> list[Array]:
    """Features of the distractors, nearest to the target first; absent ones are zero and last."""
    ids = np.arange(N_ROLES - N_DISTRACTORS, N_ROLES)
    present = frame.present[:, ids]
    away = np.linalg.norm(frame.pos[:, ids] - frame.pos[:, [_TARGET]], axis=-1)
    order = ids[np.argsort(np.where(present > 0.5, away, np.inf), axis=1, kind="stable")]
    rows = np.arange(frame.batch)
    parts: list[Array] = []
    for rank in range(N_DISTRACTORS):
        role = order[:, rank]
        here = _column(frame.present[rows, role])
        touched = np.maximum(frame.touch_left[rows, role], frame.touch_right[rows, role])
        parts += [
            here,
            here * (frame.pos[rows, role] - frame.ee_pos),
            here * frame.half_size[rows, role],
            here * _column(touched),
        ]
    return parts


def _target(frame: SimFrame) -> list[Array]:
    rot = frame.rot[:, _TARGET]
    grasp, up = grasp_point(frame, "target"), vertical_half(frame, "target")
    error = grasp_yaw_error(frame, "target")
    command_error = grasp_yaw_error(replace(frame, ee_rot=frame.command_rot), "target")
    return [
        _column(frame.present[:, _TARGET]),
        grasp - frame.ee_pos,
        grasp - frame.command_pos,
        _fine(grasp - frame.command_pos),
        np.stack([np.sin(error), np.cos(error)], 1),
        _column(np.sin(command_error)),
        frame.half_size[:, _TARGET],
        np.stack([frame.touch_left[:, _TARGET], frame.touch_right[:, _TARGET]], 1),
        _column(frame.pos[:, _TARGET, 2] - up),
        _column(1.0 - rot[:, 2, 2]),
        _column(frame.gripper_width_m - grasp_width(frame, "target")),
    ]


def observe_vector(frame: SimFrame) -> npt.NDArray[np.float32]:
    """Observation vectors (B, D) of a batch of states, not normalised."""
    yaw, command_yaw = yaw_of(frame.ee_rot), yaw_of(frame.command_rot)
    receptacle = frame.pos[:, _RECEPTACLE]
    here = _column(frame.present[:, _RECEPTACLE])
    parts = [
        frame.ee_pos,
        frame.command_pos - frame.ee_pos,
        np.stack([np.sin(yaw), np.cos(yaw)], 1),
        _column(np.sin(command_yaw - yaw)),
        frame.ee_linvel,
        _column(frame.gripper_width_m),
        _column(frame.gripper_command),
        *_target(frame),
        here,
        here * (receptacle - frame.ee_pos),
        here * (receptacle - frame.pos[:, _TARGET]),
        here * _fine(receptacle - frame.pos[:, _TARGET]),
        here * frame.half_size[:, _RECEPTACLE],
        _column(frame.touch[:, _TARGET, _RECEPTACLE]),
        *_distractors(frame),
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def observe(frame: SimFrame, text: npt.NDArray[np.float32]) -> Observation:
    """Observations of a batch of states; `text` holds their instructions' embeddings (B, E)."""
    if text.shape != (frame.batch, TEXT_DIM):
        raise ValueError(f"text: expected shape {(frame.batch, TEXT_DIM)} but got {text.shape}")
    return Observation(
        torch.from_numpy(observe_vector(frame)),
        torch.from_numpy(np.ascontiguousarray(text, dtype=np.float32)),
    )
