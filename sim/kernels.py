"""What a control step does beside physics, one scene after another, as machine code.

Compiled by Numba on first use and kept beside this file (or in the user's cache), so import this
module only where it is called. The code runs outside Python's lock, and a scene's numbers never
depend on what else is in the batch. Kept code is renewed only when this file changes: every
constant here is its own, and all that other modules define comes in as an argument.

All arrays are flat (C order); an ``_at`` beside one says where in it a vector or a matrix begins.
That keeps the code small: it compiles in seconds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Function = TypeVar("Function", bound=Callable[..., Any])

JOINTS = 7
_REST = 12 * (JOINTS + 1)
_LOW, _HIGH, _GAINS = _REST + JOINTS, _REST + 2 * JOINTS, _REST + 3 * JOINTS
"""Places in an arm's numbers, see `descend`."""
SCRATCH = 256
"""Length of the working memory `work` that a kernel takes."""
_POS, _ROT, _JAC, _ERROR, _GRAM = 0, 3, 12, 54, 60
_ORIGIN, _AXIS, _TURN, _VEC = 105, 126, 147, 156
"""Places in the working memory."""
_HINGE = 2.0
"""`SimFrame.joint_kind` of a joint that turns."""
_FAR_M = 10.0
"""A state with something further off than this has broken [m]."""

# Rows of a `field` table, in the order of `recorder.FIELDS`.
(_EE_POS, _EE_ROT, _EE_LINVEL, _COMMAND_POS, _COMMAND_ROT, _WIDTH, _COMMAND_GRIP) = range(7)
(_OBJ_POS, _OBJ_ROT, _LINVEL, _ANGVEL, _TABLE, _LEFT, _RIGHT, _PAIR, _ROBOT) = range(7, 16)
(_KIND, _JOINT_POS, _JOINT_VEL, _JOINT_AXIS, _JOINT_ANCHOR, _TIME) = range(16, 22)
# Kinds of things to read, in the order of `recorder.THINGS`; those before are contacts too.
_TOUCH_PAIR, _TOUCH_ROBOT, _FREE, _JOINT = 3, 4, 5, 6


def _kernel(function: Function) -> Function:
    compile_with = functools.partial(numba.njit, function, nogil=True, error_model="numpy")
    try:
        return compile_with(cache=True)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder that can be written to: compiled in every process
        return compile_with()  # type: ignore[no-any-return]


def _part(function: Function) -> Function:
    """A piece of a kernel, not called from Python."""
    return numba.njit(  # type: ignore[no-any-return]
        function, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )


@_part
def _product(a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int) -> None:
    """out = a b, all (3, 3), `out` another matrix."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                total += a[a_at + 3 * i + k] * b[b_at + 3 * k + j]
            out[out_at + 3 * i + j] = total


@_part
def _log(a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int) -> None:
    """Rotation vector (3,) [rad] of a b^T, the turn from b to a. See `kinematics.rotvec`."""
    trace, square = 0.0, 0.0
    for axis in range(3):
        i, j = a_at + 3 * ((axis + 2) % 3), a_at + 3 * ((axis + 1) % 3)
        m, n = b_at + 3 * ((axis + 2) % 3), b_at + 3 * ((axis + 1) % 3)
        turn = 0.0
        for k in range(3):
            trace += a[i + k] * b[m + k]
            turn += a[i + k] * b[n + k] - a[j + k] * b[m + k]
        out[out_at + axis] = turn
        square += turn * turn
    sine = math.sqrt(square)
    scale = math.atan2(sine, trace - 1.0) / sine if sine > 1e-9 else 0.5
    for axis in range(3):
        out[out_at + axis] *= scale


@_part
def _exp(vec: Array, vec_at: int, factor: float, out: Array, out_at: int) -> None:
    """Rotation matrix (3, 3) of a rotation vector times `factor`. See `kinematics.exp_rot`."""
    x, y, z = factor * vec[vec_at], factor * vec[vec_at + 1], factor * vec[vec_at + 2]
    square = x * x + y * y + z * z
    angle = math.sqrt(square)
    a = math.sin(angle) / angle if angle > 1e-8 else 1.0
    b = (1.0 - math.cos(angle)) / square if angle > 1e-6 else 0.5
    out[out_at], out[out_at + 4] = 1.0 - b * (y * y + z * z), 1.0 - b * (x * x + z * z)
    out[out_at + 8] = 1.0 - b * (x * x + y * y)
    out[out_at + 1], out[out_at + 3] = b * x * y - a * z, b * x * y + a * z
    out[out_at + 2], out[out_at + 6] = b * x * z + a * y, b * x * z - a * y
    out[out_at + 5], out[out_at + 7] = b * y * z - a * x, b * y * z + a * x


@_part
def _pose(q: Array, q_at: int, arm: Array, work: Array) -> None:
    """Grip pose at joint angles (7,), and every joint's origin and axis, into working memory."""
    for i in range(9):
        work[_TURN + i] = 1.0 if i % 4 == 0 else 0.0
    for i in range(3):
        work[_POS + i] = 0.0
    for n in range(JOINTS + 1):
        for i in range(3):
            for k in range(3):
                work[_POS + i] += work[_TURN + 3 * i + k] * arm[12 * n + k]
        _product(work, _TURN, arm, 12 * n + 3, work, _ROT)
        if n < JOINTS:
            c, s = math.cos(q[q_at + n]), math.sin(q[q_at + n])
            for i in range(3):
                x, y, z = work[_ROT + 3 * i], work[_ROT + 3 * i + 1], work[_ROT + 3 * i + 2]
                work[_TURN + 3 * i] = x * c + y * s
                work[_TURN + 3 * i + 1] = y * c - x * s
                work[_TURN + 3 * i + 2] = z
                work[_ORIGIN + 3 * n + i], work[_AXIS + 3 * n + i] = work[_POS + i], z


@_part
def _jacobian(work: Array) -> None:
    """Geometric Jacobian (6, 7) of the grip frame after `_pose`, linear rows first."""
    for n in range(JOINTS):
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            dj = work[_POS + j] - work[_ORIGIN + 3 * n + j]
            dk = work[_POS + k] - work[_ORIGIN + 3 * n + k]
            cross = work[_AXIS + 3 * n + j] * dk - work[_AXIS + 3 * n + k] * dj
            work[_JAC + JOINTS * i + n] = cross
            work[_JAC + JOINTS * (i + 3) + n] = work[_AXIS + 3 * n + i]


@_part
def _solve(work: Array) -> None:
    """Solve the symmetric positive definite system (6, 6) in place, by Cholesky's factors."""
    for i in range(6):
        for j in range(i + 1):
            total = work[_GRAM + 6 * i + j]
            for k in range(j):
                total -= work[_GRAM + 6 * i + k] * work[_GRAM + 6 * j + k]
            diagonal = work[_GRAM + 7 * j]
            work[_GRAM + 6 * i + j] = math.sqrt(total) if i == j else total / diagonal
    for i in range(6):
        for k in range(i):
            work[_ERROR + i] -= work[_GRAM + 6 * i + k] * work[_ERROR + k]
        work[_ERROR + i] /= work[_GRAM + 7 * i]
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            work[_ERROR + i] -= work[_GRAM + 6 * k + i] * work[_ERROR + k]
        work[_ERROR + i] /= work[_GRAM + 7 * i]


@_kernel
def descend(
    rows: Ints, q: Array, goal: Array, at: int, stride: int, arm: Array, steps: int, work: Array
) -> None:
    """Steps of damped least squares of scenes `rows` (n,) towards poses; changes q.

    With one scene and no steps, `work` then holds its pose and Jacobian.

    Args:
        q: Joint angles (B, 7) [rad].
        goal: Wanted poses, the position [m] right before the rotation.
        at: Where the first scene's pose begins.
        stride: Distance of one scene's pose from the next.
        arm: Fixed transforms before each joint and after the last (8, 4, 3), position first; the
            posture that the null space is drawn to, lower and upper limits (3, 7) [rad]; square of
            the damping, the null space's gain, furthest joint step [rad].
        steps: How many.
    """
    for b in rows:
        own, wanted = JOINTS * b, at + stride * b
        for step in range(steps + 1):
            _pose(q, own, arm, work)
            _jacobian(work)
            if step == steps:
                break
            _log(goal, wanted + 3, work, _ROT, work, _ERROR + 3)
            for i in range(6):
                if i < 3:
                    work[_ERROR + i] = goal[wanted + i] - work[_POS + i]
                for n in range(JOINTS):
                    home = arm[_GAINS + 1] * (arm[_REST + n] - q[own + n])
                    work[_ERROR + i] -= work[_JAC + JOINTS * i + n] * home
                for j in range(i + 1):
                    total = arm[_GAINS] if i == j else 0.0
                    for n in range(JOINTS):
                        total += work[_JAC + JOINTS * i + n] * work[_JAC + JOINTS * j + n]
                    work[_GRAM + 6 * i + j] = total
            _solve(work)
            for n in range(JOINTS):
                move = arm[_GAINS + 1] * (arm[_REST + n] - q[own + n])
                for i in range(6):
                    move += work[_JAC + JOINTS * i + n] * work[_ERROR + i]
                angle = q[own + n] + min(max(move, -arm[_GAINS + 2]), arm[_GAINS + 2])
                q[own + n] = min(max(angle, arm[_LOW + n]), arm[_HIGH + n])


@_kernel
def command(
    rows: Ints, actions: Array, frame: Array, size: int, field: Ints, scales: Array, work: Array
) -> None:
    """Move the commanded poses of scenes `rows` (n,) by their actions.

    Args:
        actions: Their normalised actions (n, 7).
        frame: Packed frames (B, F), changed.
        size: F.
        field: Where each of `recorder.FIELDS` begins.
        scales: Metres and radians of a full action, leash [m], floor [m].
    """
    for n in range(len(rows)):
        begin, action = size * rows[n], 7 * n
        at, pos = begin + field[_EE_POS], begin + field[_COMMAND_POS]
        square = 0.0
        for i in range(3):
            lead = frame[pos + i] + scales[0] * actions[action + i] - frame[at + i]
            work[_VEC + i] = lead
            square += lead * lead
        factor = min(1.0, scales[2] / max(math.sqrt(square), 1e-9))
        for i in range(3):
            frame[pos + i] = frame[at + i] + work[_VEC + i] * factor
        frame[pos + 2] = max(frame[pos + 2], scales[3])
        rot = begin + field[_COMMAND_ROT]
        for i in range(9):
            work[_ROT + i] = frame[rot + i]
        _exp(actions, action + 3, scales[1], work, _TURN)
        _product(work, _TURN, work, _ROT, frame, rot)
        if actions[action + 6] > 0.0:
            frame[begin + field[_COMMAND_GRIP]] = 1.0
        elif actions[action + 6] < 0.0:
            frame[begin + field[_COMMAND_GRIP]] = -1.0


@_part
def _to_rot(quat: Array, at: int, work: Array) -> None:
    """Rotation matrix (3, 3) of a quaternion (w, x, y, z) of any length, to working memory."""
    square = 0.0
    for i in range(4):
        square += quat[at + i] * quat[at + i]
    norm = math.sqrt(square)
    w, x, y, z = quat[at] / norm, quat[at + 1] / norm, quat[at + 2] / norm, quat[at + 3] / norm
    work[_TURN], work[_TURN + 4] = 1 - 2 * (y * y + z * z), 1 - 2 * (x * x + z * z)
    work[_TURN + 8] = 1 - 2 * (x * x + y * y)
    work[_TURN + 1], work[_TURN + 3] = 2 * (x * y - w * z), 2 * (x * y + w * z)
    work[_TURN + 2], work[_TURN + 6] = 2 * (x * z + w * y), 2 * (x * z - w * y)
    work[_TURN + 5], work[_TURN + 7] = 2 * (y * z - w * x), 2 * (y * z + w * x)


@_part
def _read_free(
    state: Array, q: int, v: int, frame: Array, at: int, field: Ints, n: int, dt: float, work: Array
) -> None:
    """Pose and velocity of role n's free body; where `dt` [s] is 0, the velocity of the state."""
    pos, rot = at + field[_OBJ_POS] + 3 * n, at + field[_OBJ_ROT] + 9 * n
    linear, angular = at + field[_LINVEL] + 3 * n, at + field[_ANGVEL] + 3 * n
    _to_rot(state, q + 3, work)
    _log(work, _TURN, frame, rot, work, _VEC)
    for i in range(3):
        if dt > 0.0:
            frame[linear + i] = (state[q + i] - frame[pos + i]) / dt
            frame[angular + i] = work[_VEC + i] / dt
        else:
            frame[linear + i] = state[v + i]
            frame[angular + i] = 0.0
            for k in range(3):
                frame[angular + i] += work[_TURN + 3 * i + k] * state[v + 3 + k]
        frame[pos + i] = state[q + i]
    for i in range(9):
        frame[rot + i] = work[_TURN + i]


@_part
def _read_moving(
    frame: Array, begin: int, field: Ints, role: int, closed: Array, closed_at: int, work: Array
) -> None:
    """Pose and velocity of a thing that moves with the fixture's joint."""
    pos, rot = begin + field[_OBJ_POS] + 3 * role, begin + field[_OBJ_ROT] + 9 * role
    linear, angular = begin + field[_LINVEL] + 3 * role, begin + field[_ANGVEL] + 3 * role
    axis, anchor = begin + field[_JOINT_AXIS], begin + field[_JOINT_ANCHOR]
    value, rate = frame[begin + field[_JOINT_POS]], frame[begin + field[_JOINT_VEL]]
    turns = frame[begin + field[_KIND]] == _HINGE
    _exp(frame, axis, value if turns else 0.0, work, _TURN)
    _product(work, _TURN, closed, closed_at + 3, frame, rot)
    for i in range(3):
        work[_VEC + i] = 0.0
        for k in range(3):
            reach = closed[closed_at + k] - frame[anchor + k]
            work[_VEC + i] += work[_TURN + 3 * i + k] * reach
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        if turns:
            cross = frame[axis + j] * work[_VEC + k] - frame[axis + k] * work[_VEC + j]
            frame[pos + i] = frame[anchor + i] + work[_VEC + i]
            frame[linear + i] = cross * rate
            frame[angular + i] = frame[axis + i] * rate
        else:
            frame[pos + i] = closed[closed_at + i] + frame[axis + i] * value
            frame[linear + i] = frame[axis + i] * rate
            frame[angular + i] = 0.0


@_part
def _reach(values: Array, at: int, count: int) -> float:
    """Largest absolute value; infinite where one is no number."""
    most = 0.0
    for n in range(at, at + count):
        most = max(most, abs(values[n])) if values[n] == values[n] else math.inf
    return most


@_part
def _read_grip(
    states: Array, at: int, frame: Array, begin: int, field: Ints, dt_s: float, work: Array
) -> None:
    """Pose, after `_pose`, and velocity of the gripper; its fingers and the clock."""
    pos, velocity = begin + field[_EE_POS], begin + field[_EE_LINVEL]
    for i in range(3):
        moved = work[_POS + i] - frame[pos + i]
        frame[velocity + i] = moved / dt_s if dt_s > 0.0 else 0.0
        frame[pos + i] = work[_POS + i]
    for i in range(9):
        frame[begin + field[_EE_ROT] + i] = work[_ROT + i]
    frame[begin + field[_WIDTH]] = states[at + 1 + JOINTS] - states[at + 2 + JOINTS]
    frame[begin + field[_TIME]] = states[at]


@_kernel
def read(
    rows: Ints,
    states: Array,
    sensed: Array,
    frame: Array,
    sizes: Ints,
    field: Ints,
    starts: Ints,
    things: Ints,
    closed: Array,
    arm: Array,
    dt_s: float,
    work: Array,
    sound: Flags,
) -> None:
    """Bring the packed frames of scenes `rows` (n,) up to date; see `Recorder.read`.

    Args:
        states: Time, qpos and qvel (B, S).
        sensed: Readings of the contact sensors (B, N).
        frame: Packed frames (B, F), changed.
        sizes: S, N, F and the number of roles.
        field: Where each of `recorder.FIELDS` begins.
        starts: Where each scene begins in `things`, and the end (B + 1,).
        things: What to read, a kind and three numbers (T, 4). Of a contact: both roles and the
            sensor's column. Of a free body: its role, the columns of its position and velocity. Of
            the fixture's joint: 0 and the same columns. Of what moves with it, after the joint:
            its role and its place in `closed`.
        closed: Position and rotation of what moves when the joint is closed (.., 4, 3).
        arm: See `descend`.
        dt_s: Time since the last record [s]; 0 if this is the first.
        sound: Written (n,): whether positions are finite and not far off.
    """
    for n in range(len(rows)):
        state, begin = sizes[0] * rows[n], sizes[2] * rows[n]
        _pose(states, state + 1, arm, work)
        _read_grip(states, state, frame, begin, field, dt_s, work)
        for m in range(4 * starts[rows[n]], 4 * starts[rows[n] + 1], 4):
            kind, i, j, k = things[m], things[m + 1], things[m + 2], things[m + 3]
            if kind <= _TOUCH_ROBOT:
                value = 1.0 if sensed[sizes[1] * rows[n] + k] > 0.0 else 0.0
                if kind == _TOUCH_PAIR:
                    frame[begin + field[_PAIR] + sizes[3] * i + j] = value
                    frame[begin + field[_PAIR] + sizes[3] * j + i] = value
                else:
                    frame[begin + field[_TABLE + kind] + i] = value
            elif kind == _FREE:
                _read_free(states, state + j, state + k, frame, begin, field, i, dt_s, work)
            elif kind == _JOINT:
                at, value = begin + field[_JOINT_POS], states[state + j]
                rate = (value - frame[at]) / dt_s if dt_s > 0.0 else states[state + k]
                frame[at], frame[begin + field[_JOINT_VEL]] = value, rate
            else:
                _read_moving(frame, begin, field, i, closed, 12 * j, work)
        reach = _reach(frame, begin + field[_OBJ_POS], 3 * sizes[3]) + _reach(work, _POS, 3)
        sound[n] = reach < _FAR_M
