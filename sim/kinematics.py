r"""Kinematics of the Panda arm, vectorised over a batch, and damped differential IK.

All seven joints turn about their own z axis. With the fixed transform :math:`(p_i, R_i)` before
joint i, :math:`T_i = T_{i-1} (p_i, R_i R_z(q_i))`. Numbers come from robosuite's own model file.
"""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ET

import numpy as np
import numpy.typing as npt

from coda.sim.errors import SimulationError
from coda.sim.vendor import import_robosuite

Array = npt.NDArray[np.float64]

N_JOINTS = 7
HOME_Q: tuple[float, ...] = (0.0, 0.196, 0.0, -2.618, 0.0, 2.942, 0.785)
"""robosuite's initial joint angles [rad]; the null space is drawn towards them."""
DAMPING = 0.03
"""Damping of the least-squares IK [rad-equivalent]."""
NULLSPACE_GAIN = 0.05
MAX_STEP_RAD = 0.12
"""Fastest joint motion in one control step [rad]."""


@functools.cache
def robot_xml() -> str:
    """MJCF of robosuite's Panda with its gripper, as text."""
    import_robosuite()
    from robosuite.models.grippers import PandaGripper
    from robosuite.models.robots import Panda

    robot = Panda()
    robot.add_gripper(PandaGripper())
    return str(robot.get_xml())


def quat_to_rot(quat: npt.ArrayLike) -> Array:
    """Rotation matrix (3, 3) of a quaternion (w, x, y, z); normalises it first."""
    return np.asarray(quats_to_rots(np.asarray(quat, dtype=np.float64)[None])[0])


class _Chain:
    """What is fixed about the arm.

    Attributes:
        numbers: All but the furthest joint step of `kernels.descend`'s `arm`.
    """

    def __init__(self) -> None:
        root = ET.fromstring(robot_xml())
        bodies = {b.get("name"): b for b in root.iter("body")}
        pos, rot, low, high = [], [], [], []
        for i in range(1, N_JOINTS + 1):
            p, r = _transform(bodies[f"robot0_link{i}"])
            pos.append(p)
            rot.append(r)
            joint = bodies[f"robot0_link{i}"].find("joint")
            if joint is None:
                raise SimulationError(f"robosuite's Panda has no joint in link {i}.")
            lo, hi = (float(v) for v in joint.get("range", "").split())
            low.append(lo)
            high.append(hi)
        tool_p, tool_r = np.zeros(3), np.eye(3)
        for name in ("robot0_right_hand", "gripper0_right_gripper", "gripper0_eef"):
            p, r = _transform(bodies[name])
            tool_p, tool_r = tool_p + tool_r @ p, tool_r @ r
        # the grip frame has the fingers opening along y; robosuite's opens along x
        quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        pos, rot = [*pos, tool_p], [*rot, tool_r @ quarter]
        fixed = np.concatenate((np.array(pos)[:, None], np.array(rot)), axis=1).reshape(-1)
        limits = (np.array(low) + 0.02, np.array(high) - 0.02)
        self.numbers = np.concatenate((fixed, HOME_Q, *limits, (DAMPING**2, NULLSPACE_GAIN)))


def _transform(body: ET.Element) -> tuple[Array, Array]:
    pos = np.array([float(v) for v in body.get("pos", "0 0 0").split()])
    return pos, quat_to_rot([float(v) for v in body.get("quat", "1 0 0 0").split()])


@functools.cache
def chain() -> _Chain:
    """Fixed transforms and joint limits, read once."""
    return _Chain()


@functools.cache
def arm(max_step_rad: float = MAX_STEP_RAD) -> Array:
    """The arm's numbers as `kernels.descend` takes them."""
    return np.append(chain().numbers, max_step_rad)


def quats_to_rots(quats: Array) -> Array:
    """Rotation matrices (N, 3, 3) of quaternions (N, 4) (w, x, y, z); normalises them first."""
    unit = quats / np.sqrt((quats * quats).sum(axis=1, keepdims=True))
    w, x, y, z = unit.T
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


def forward(q: Array) -> tuple[Array, Array, Array]:
    """Pose of the grip frame and its geometric Jacobian.

    Args:
        q: Joint angles (B, 7) [rad].

    Returns:
        Position (B, 3) [m], rotation (B, 3, 3), Jacobian (B, 6, 7) (linear rows first).
    """
    from coda.sim import kernels

    angles = np.array(q, dtype=np.float64).reshape(-1)
    out = np.empty((len(q), kernels.SCRATCH))
    for b in range(len(q)):
        kernels.descend(np.array([b]), angles, out[b], 0, 0, arm(), 0, out[b])
    jac = out[:, 12 : 12 + 6 * N_JOINTS].reshape(-1, 6, N_JOINTS)
    return out[:, :3].copy(), out[:, 3:12].reshape(-1, 3, 3), jac


def rotvec(rot: Array) -> Array:
    """Rotation vectors (B, 3) [rad] of rotation matrices (B, 3, 3)."""
    axis = np.stack(
        (
            rot[:, 2, 1] - rot[:, 1, 2],
            rot[:, 0, 2] - rot[:, 2, 0],
            rot[:, 1, 0] - rot[:, 0, 1],
        ),
        axis=1,
    )
    sin2 = np.sqrt((axis * axis).sum(axis=1))
    trace = rot[:, 0, 0] + rot[:, 1, 1] + rot[:, 2, 2]
    angle = np.arctan2(sin2, trace - 1.0)
    return np.asarray(axis * (np.where(sin2 > 1e-9, angle / np.maximum(sin2, 1e-9), 0.5))[:, None])


def exp_rot(vec: Array) -> Array:
    """Rotation matrices (B, 3, 3) of rotation vectors (B, 3) [rad] (Rodrigues)."""
    angle = np.sqrt((vec * vec).sum(axis=1))
    safe = np.maximum(angle, 1e-12)
    a = np.where(angle > 1e-8, np.sin(safe) / safe, 1.0)[:, None, None]
    b = np.where(angle > 1e-6, (1.0 - np.cos(safe)) / (safe * safe), 0.5)[:, None, None]
    k = np.zeros((vec.shape[0], 3, 3))
    k[:, 0, 1], k[:, 0, 2], k[:, 1, 2] = -vec[:, 2], vec[:, 1], -vec[:, 0]
    k[:, 1, 0], k[:, 2, 0], k[:, 2, 1] = vec[:, 2], -vec[:, 1], vec[:, 0]
    return np.asarray(np.eye(3) + a * k + b * (k @ k))


def down_rot(yaw: npt.ArrayLike) -> Array:
    """Grip rotations (B, 3, 3) with the fingers down and turned by `yaw` (B,) [rad]."""
    angle = np.atleast_1d(np.asarray(yaw, dtype=np.float64))
    c, s, zero, one = np.cos(angle), np.sin(angle), np.zeros_like(angle), np.ones_like(angle)
    return np.stack(
        (
            np.stack((c, s, zero), axis=1),
            np.stack((s, -c, zero), axis=1),
            np.stack((zero, zero, -one), axis=1),
        ),
        axis=1,
    )


def solve_ik(target_pos: Array, target_rot: Array, *, iterations: int = 80) -> tuple[Array, Array]:
    """Joint angles for grip poses, from the home posture.

    Returns:
        Joint angles (B, 7) [rad] and the remaining error (B,): metres plus 0.1 m per rad.
    """
    from coda.sim import kernels

    batch = len(target_pos)
    q = np.tile(np.asarray(HOME_Q), (batch, 1))
    goal = np.concatenate((target_pos, target_rot.reshape(batch, 9)), axis=1).reshape(-1)
    work, rows = np.empty(kernels.SCRATCH), np.arange(batch)
    kernels.descend(rows, q.reshape(-1), goal, 0, 12, arm(0.2), iterations, work)
    pos, rot, _ = forward(q)
    angle = np.linalg.norm(rotvec(target_rot @ rot.transpose(0, 2, 1)), axis=1)
    return q, np.linalg.norm(target_pos - pos, axis=1) + 0.1 * angle
