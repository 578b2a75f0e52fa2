"""What policies see: gripper, then, for state policies, one token per role, in a fixed order.

Everything horizontal is relative to the gripper or to the controller's commanded pose, so that a
motion learned at one place means the same at another; the absolute position enters once, as the
gripper's. Distractors are sorted by their distance to the target: their order in the scene means
nothing. The gripper's own numbers (`proprioception`) are all that a real robot knows without its
cameras; everything after them is privileged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coda.sim.frame import N_ROLES, SimFrame
from coda.sim.predicates import (
    depth_below_mouth,
    grasp_point,
    grasp_width,
    grasp_yaw_error,
    graspable,
    underside,
)
from coda.sim.roles import Role, role_index

Array = npt.NDArray[np.float64]

TEXT_DIM = 384
"""Length E of a sentence embedding."""
N_DISTRACTORS = 3
FINE_M = 0.02
"""Scale of the fine offsets [m]."""

_TARGET = role_index("target")
_HANDLE = role_index("handle")

_GRASPABLE: tuple[tuple[str, int, float], ...] = (
    ("graspable", 1, 0.5),
    ("from gripper", 3, 0.05),
    ("from command", 3, 0.05),
    ("from command, fine", 3, 0.3),
    ("grasp yaw", 2, 0.2),
    ("grasp yaw from command", 1, 0.2),
    ("grasp half size", 3, 0.01),
    ("touched left, right", 2, 0.3),
    ("underside", 1, 0.03),
    ("tilt", 1, 0.1),
    ("gap", 1, 0.01),
)
_GOAL: tuple[tuple[str, int, float], ...] = (
    ("present", 1, 0.5),
    ("from gripper", 3, 0.1),
    ("seat from subject", 3, 0.1),
    ("seat from subject, fine", 3, 0.3),
    ("turn from subject", 2, 0.2),
    ("subject below mouth", 1, 0.03),
    ("half size", 3, 0.02),
    ("touches subject", 1, 0.3),
)
_JOINT: tuple[tuple[str, int, float], ...] = (
    ("slides, turns", 2, 0.5),
    ("opening", 1, 0.2),
    ("opening to go", 1, 0.2),
    ("speed", 1, 0.1),
    ("way of the handle", 3, 0.3),
)
_DISTRACTOR: tuple[tuple[str, int, float], ...] = (
    ("present", 1, 0.5),
    ("from gripper", 3, 0.1),
    ("half size", 3, 0.02),
    ("touched", 1, 0.3),
)


def _named(
    prefix: str, features: tuple[tuple[str, int, float], ...]
) -> tuple[tuple[str, int, float], ...]:
    return tuple((f"{prefix} {name}", size, floor) for name, size, floor in features)


PROPRIOCEPTION: tuple[tuple[str, int, float], ...] = (
    ("gripper xy", 2, 0.2),
    ("gripper z", 1, 0.05),
    ("gripper lag", 3, 0.01),
    ("gripper yaw", 2, 0.3),
    ("gripper yaw lag", 1, 0.05),
    ("gripper velocity", 3, 0.1),
    ("gripper width", 1, 0.01),
    ("gripper command", 1, 0.5),
)
"""Features of the gripper's own pose, speed and width, and of the commanded pose; as `FEATURES`."""
PROPRIOCEPTION_DIM = sum(size for _, size, _ in PROPRIOCEPTION)
"""Length P of a proprioceptive vector."""

FEATURES: tuple[tuple[str, int, float], ...] = (
    *PROPRIOCEPTION,
    *_named("target", _GRASPABLE),
    *_named("receptacle", _GRASPABLE),
    *_named("handle", _GRASPABLE),
    *_named("receptacle of target", _GOAL),
    *_named("support of receptacle", _GOAL),
    *_named("joint", _JOINT),
    *_named("distractor 1", _DISTRACTOR),
    *_named("distractor 2", _DISTRACTOR),
    *_named("distractor 3", _DISTRACTOR),
)
"""(name, length, floor of its scale in its own unit) of every feature, in order.

The floor is what a change must reach to matter to the network as much as a typical change of a
feature that does vary: a factor constant in the data must not explode when it first moves.
"""
OBSERVATION_DIM = sum(size for _, size, _ in FEATURES)
"""Length D of an observation vector."""


def scale_floor(
    features: tuple[tuple[str, int, float], ...] = FEATURES,
) -> npt.NDArray[np.float32]:
    """Floors of the features' scales, (D,)."""
    return np.concatenate([np.full(size, floor, np.float32) for _, size, floor in features])


@dataclass(frozen=True)
class Observation:
    """A batch of observations."""

    vector: Tensor
    """(B, V) float32, not normalised: metres, radians, metres per second. For a state policy the
    privileged vector (V = D), for one that sees pictures proprioception only (V = P)."""
    text: Tensor
    """(B, E) float32 sentence embedding of the instruction."""
    pictures: Tensor | None = None
    """(B, cameras, 3, h, w) uint8, where the policy sees pictures."""

    @property
    def batch(self) -> int:
        """Number of observations B."""
        return int(self.vector.shape[0])

    def __getitem__(self, index: Any) -> Observation:
        """Select rows by an index tensor, a mask or a slice (the batch axis stays)."""
        pictures = None if self.pictures is None else self.pictures[index]
        return Observation(self.vector[index], self.text[index], pictures)

    def to(self, device: torch.device) -> Observation:
        """The same observations on another device."""
        pictures = None if self.pictures is None else self.pictures.to(device)
        return Observation(self.vector.to(device), self.text.to(device), pictures)


def yaw_of(rot: Array) -> Array:
    """Direction in the table plane of the y axis of rotations (B, 3, 3), (B,) [rad].

    A gripper opens along its y axis.
    """
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


def _graspable(frame: SimFrame, role: Role) -> list[Array]:
    """Features of a role that the gripper may take; zero where it cannot."""
    i = role_index(role)
    here = _column(graspable(frame, role).astype(np.float64))
    grasp = grasp_point(frame, role)
    error = grasp_yaw_error(frame, role)
    command_error = grasp_yaw_error(replace(frame, ee_rot=frame.command_rot), role)
    parts = [
        grasp - frame.ee_pos,
        grasp - frame.command_pos,
        _fine(grasp - frame.command_pos),
        np.stack([np.sin(error), np.cos(error)], 1),
        _column(np.sin(command_error)),
        frame.grip_half[:, i],
        np.stack([frame.touch_left[:, i], frame.touch_right[:, i]], 1),
        _column(underside(frame, role)),
        _column(1.0 - frame.rot[:, i, 2, 2]),
        _column(frame.gripper_width_m - grasp_width(frame, role)),
    ]
    return [here, *(here * part for part in parts)]


def _goal(frame: SimFrame, subject: Role, reference: Role) -> list[Array]:
    """Features of where `subject` belongs; zero where the reference is absent."""
    i, j = role_index(subject), role_index(reference)
    here = _column(frame.present[:, j])
    seat = frame.pos[:, j].copy()
    seat[:, 2] += frame.seat[:, j]
    foot = frame.pos[:, i].copy()
    foot[:, 2] = underside(frame, subject)
    turn = yaw_of(frame.rot[:, j]) - yaw_of(frame.rot[:, i])
    parts = [
        frame.pos[:, j] - frame.ee_pos,
        seat - foot,
        _fine(seat - foot),
        np.stack([np.sin(4 * turn), np.cos(4 * turn)], 1),  # of square things, quarters look alike
        _column(depth_below_mouth(frame, subject, reference)),
        frame.half_size[:, j],
        _column(frame.touch[:, i, j]),
    ]
    return [here, *(here * part for part in parts)]


def _joint(frame: SimFrame) -> list[Array]:
    """Features of the fixture's joint; zero where there is none."""
    here = _column((frame.joint_kind > 0).astype(np.float64))
    arm = np.cross(frame.joint_axis, frame.pos[:, _HANDLE] - frame.joint_anchor)
    arm = arm / np.maximum(np.linalg.norm(arm, axis=1, keepdims=True), 1e-6)
    way = np.where(_column(frame.joint_kind) == 2, arm, frame.joint_axis)
    parts = [
        np.stack([frame.joint_kind == 1, frame.joint_kind == 2], 1).astype(np.float64),
        _column(frame.opening),
        _column(frame.joint_goal - frame.opening),
        _column(frame.joint_vel / frame.joint_span),
        way,
    ]
    return [here * part for part in parts]


def _gripper(frame: SimFrame) -> list[Array]:
    """Features of the gripper and of its command; they read nothing else of the state."""
    yaw, command_yaw = yaw_of(frame.ee_rot), yaw_of(frame.command_rot)
    return [
        frame.ee_pos,
        frame.command_pos - frame.ee_pos,
        np.stack([np.sin(yaw), np.cos(yaw)], 1),
        _column(np.sin(command_yaw - yaw)),
        frame.ee_linvel,
        _column(frame.gripper_width_m),
        _column(frame.gripper_command),
    ]


def proprioception(frame: SimFrame) -> npt.NDArray[np.float32]:
    """What the robot knows of itself, (B, P), not normalised."""
    return np.concatenate(_gripper(frame), axis=1).astype(np.float32)


def observe_vector(frame: SimFrame) -> npt.NDArray[np.float32]:
    """Privileged observation vectors (B, D) of a batch of states, not normalised."""
    parts = [
        *_gripper(frame),
        *_graspable(frame, "target"),
        *_graspable(frame, "receptacle"),
        *_graspable(frame, "handle"),
        *_goal(frame, "target", "receptacle"),
        *_goal(frame, "receptacle", "support"),
        *_joint(frame),
        *_distractors(frame),
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def observe(frame: SimFrame, text: npt.NDArray[np.float32]) -> Observation:
    """Privileged observations of states; `text` holds their instructions' embeddings (B, E)."""
    return Observation(torch.from_numpy(observe_vector(frame)), text_rows(text, frame.batch))


def text_rows(text: npt.NDArray[np.float32], batch: int) -> Tensor:
    """Embeddings of `batch` instructions as a tensor (B, E)."""
    if text.shape != (batch, TEXT_DIM):
        raise ValueError(f"text: expected shape {(batch, TEXT_DIM)} but got {text.shape}")
    return torch.from_numpy(np.ascontiguousarray(text, dtype=np.float32))
