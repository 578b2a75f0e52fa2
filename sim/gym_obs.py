"""What the Gymnasium environments return: a flat privileged state vector, and camera pictures.

The state vector has the same layout for every family: the robot's entries first (`ROBOT_DIM` of
them: what a real robot measures of itself), then the fixture's joint, then one block for each role
in the order of `ROLES` (zero where the scene has no such thing). `STATE_NAMES` names every entry,
e.g. ``ee_pos.x`` or ``target.rot.zx``; units are those of `coda.sim.frame.SimFrame`: m, rad, m/s,
rad/s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from coda.sim.engine import ACTION_DIM
from coda.sim.errors import SimulationError, UnknownName
from coda.sim.families import family
from coda.sim.frame import SimFrame
from coda.sim.render import CAMERAS, Image
from coda.sim.roles import ROLES

ObsType = Literal["state", "pixels", "pixels_state"]
"""Kinds of observation, see `observation_space`."""
OBS_TYPES: tuple[ObsType, ...] = ("state", "pixels", "pixels_state")

Vector = npt.NDArray[np.float32]
Observation = Any
"""A state vector (N,) float32, or a dict of pictures (H, W, 3) uint8 and perhaps ``state``."""

FAR_M = 10.0
"""Largest coordinate in an observation [m]; a state beyond it counts as crashed."""
FAST_M_S = 20.0
SPIN_RAD_S = 200.0

_XYZ = ("x", "y", "z")
_MATRIX = tuple(f"{row}{column}" for row in _XYZ for column in _XYZ)

Fields = Mapping[str, tuple[tuple[str, ...], float]]
"""Fields of `SimFrame`: names of their entries, and the bound of their size."""

ROBOT_FIELDS: Fields = MappingProxyType(
    {
        "ee_pos": (_XYZ, FAR_M),
        "ee_rot": (_MATRIX, 1.0),
        "ee_linvel": (_XYZ, FAST_M_S),
        "command_pos": (_XYZ, FAR_M),
        "command_rot": (_MATRIX, 1.0),
        "gripper_width_m": ((), 0.1),
        "gripper_command": ((), 1.0),
        "robot_touch_table": ((), 1.0),
    }
)
"""The robot."""

JOINT_FIELDS: Fields = MappingProxyType(
    {
        "joint_kind": ((), 2.0),
        "joint_pos": ((), FAR_M),
        "joint_vel": ((), SPIN_RAD_S),
        "joint_span": ((), FAR_M),
        "joint_axis": (_XYZ, 1.0),
        "joint_anchor": (_XYZ, FAR_M),
        "joint_goal": ((), 1.0),
    }
)
"""The joint of the articulated fixture."""

ROLE_FIELDS: Fields = MappingProxyType(
    {
        "present": ((), 1.0),
        "pos": (_XYZ, FAR_M),
        "rot": (_MATRIX, 1.0),
        "linvel": (_XYZ, FAST_M_S),
        "angvel": (_XYZ, SPIN_RAD_S),
        "half_size": (_XYZ, FAR_M),
        "grip": (_XYZ, FAR_M),
        "grip_half": (_XYZ, FAR_M),
        "seat": ((), FAR_M),
        "seat_half": (("x", "y"), FAR_M),
        "mouth": ((), FAR_M),
        "touch_left": ((), 1.0),
        "touch_right": ((), 1.0),
        "touch_table": ((), 1.0),
        "touch": (ROLES, 1.0),
    }
)
"""Every role."""

LEFT_OUT = ("time_s",)
"""Fields of the frame that are no part of the state vector: the episode's clock."""


def _names(prefix: str, fields: Fields) -> tuple[str, ...]:
    return tuple(
        f"{prefix}{field}{entry}"
        for field, (entries, _) in fields.items()
        for entry in ([f".{e}" for e in entries] or [""])
    )


def _bounds(fields: Fields) -> list[float]:
    return [bound for entries, bound in fields.values() for _ in entries or ("",)]


STATE_NAMES: tuple[str, ...] = (
    *_names("", ROBOT_FIELDS),
    *_names("", JOINT_FIELDS),
    *(name for role in ROLES for name in _names(f"{role}.", ROLE_FIELDS)),
)
"""Name of every entry of the state vector, in order (N,)."""
STATE_DIM = len(STATE_NAMES)
"""Length N of the state vector."""
ROBOT_DIM = len(_names("", ROBOT_FIELDS))
"""Length of the robot's own part, at the front of the state vector."""
STATE_BOUND: Vector = np.array(
    _bounds(ROBOT_FIELDS) + _bounds(JOINT_FIELDS) + _bounds(ROLE_FIELDS) * len(ROLES),
    dtype=np.float32,
)
"""Largest size of every entry of the state vector (N,); larger values are clipped to it."""


def state_vector(frame: SimFrame) -> Vector:
    """State vectors (B, N) float32 of B states."""
    batch, roles = frame.batch, len(ROLES)
    single = [getattr(frame, name).reshape(batch, -1) for name in (*ROBOT_FIELDS, *JOINT_FIELDS)]
    shared = [getattr(frame, name).reshape(batch, roles, -1) for name in ROLE_FIELDS]
    blocks = np.concatenate(shared, axis=2).reshape(batch, -1)
    flat = np.concatenate([*single, blocks], axis=1).astype(np.float32)
    return np.clip(flat, -STATE_BOUND, STATE_BOUND)


def observation_space(obs_type: ObsType, image_size: tuple[int, int]) -> spaces.Space[Any]:
    """The space of one observation.

    ``state``: the state vector. ``pixels``: a dict with a picture (H, W, 3) of each camera,
    ``agentview`` and ``wrist``. ``pixels_state``: that dict with the state vector as ``state``.

    Raises `UnknownName` for another kind, `SimulationError` for an impossible picture size.
    """
    if obs_type not in OBS_TYPES:
        raise UnknownName("obs_type", str(obs_type), OBS_TYPES)
    state = spaces.Box(-STATE_BOUND, STATE_BOUND, dtype=np.float32)
    if obs_type == "state":
        return state
    shape = (*check_size("image_size", image_size), 3)
    cameras: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(0, 255, shape, dtype=np.uint8) for name in CAMERAS
    }
    if obs_type == "pixels_state":
        cameras["state"] = state
    return spaces.Dict(cameras)


def pack_observation(
    obs_type: ObsType, state: Vector, pictures: Mapping[str, Image]
) -> Observation:
    """One observation from a state vector (N,) and a picture of each camera."""
    if obs_type == "state":
        return state
    parts: dict[str, Any] = dict(pictures)
    if obs_type == "pixels_state":
        parts["state"] = state
    return parts


def check_size(name: str, size: Sequence[int]) -> tuple[int, int]:
    """(height, width) of pictures [pixels]. Raises `SimulationError` unless each is 16 to 2048."""
    if len(size) != 2 or not all(isinstance(n, int) and 16 <= n <= 2048 for n in size):
        raise SimulationError(
            f"{name} = {tuple(size)}; give (height, width), each a whole number from 16 to 2048."
        )
    return size[0], size[1]


def action_space() -> spaces.Box:
    """Actions (7,): position/0.05 m, axis-angle/0.5 rad in the base frame, gripper's sign."""
    return spaces.Box(-1.0, 1.0, (ACTION_DIM,), dtype=np.float32)


def check_action(action: Any, shape: tuple[int, ...], rows: Sequence[int] | None = None) -> Any:
    """`action` as float64, clipped to [-1, 1].

    Args:
        action: Numbers.
        shape: Shape wanted, (7,) or (B, 7).
        rows: Rows whose values matter; all where None.

    Raises:
        SimulationError: It has another shape, or an entry that is no finite number.
    """
    try:
        values = np.asarray(action, dtype=np.float64)
    except (TypeError, ValueError):
        raise SimulationError(
            f"action {action!r:.60} is not numeric; give an array of shape {shape}."
        ) from None
    if values.shape != shape:
        raise SimulationError(
            f"action has shape {values.shape}; expected {shape}: "
            "dx, dy, dz, rx, ry, rz, gripper, each in [-1, 1]."
        )
    used = values if rows is None else values[list(rows)]
    bad = np.argwhere(~np.isfinite(used))
    if bad.size:
        where = bad[0].tolist()
        value = float(used[tuple(where)])
        if rows is not None:
            where[0] = rows[where[0]]
        raise SimulationError(
            f"action{where} = {value}; every entry must be a finite number in [-1, 1]."
        )
    # rows that do not matter are never executed
    return np.clip(np.where(np.isfinite(values), values, 0.0), -1.0, 1.0)


def episode_limit(max_episode_steps: int | None, family_name: str) -> float:
    """Control steps after which an episode is cut.

    As in `gymnasium.make`, None takes the family's own limit and -1 means no limit (infinity).
    Raises `SimulationError` for another number below 1.
    """
    if max_episode_steps is None:
        return family_limit(family_name)
    if max_episode_steps == -1:
        return math.inf
    if not isinstance(max_episode_steps, int) or max_episode_steps < 1:
        raise SimulationError(
            f"max_episode_steps = {max_episode_steps!r}; give a whole number from 1, "
            "or -1 for no limit."
        )
    return max_episode_steps


def family_limit(family_name: str) -> int:
    """Episode limit that gives every task of a family its time [control steps]."""
    return max(task.max_steps for task in family(family_name).tasks.values())
