"""The compiled part of a control step, against plain numpy and against MuJoCo."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from coda.sim import kernels
from coda.sim import kinematics as kin
from coda.sim.engine import CHUNK, CONTROL_HZ, BatchSim
from coda.sim.families import FAMILIES, family
from coda.sim.planner import ScriptedPlanner
from coda.sim.recorder import FIELDS, HINGE, THINGS
from coda.sim.roles import ROLES
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits

RNG = np.random.default_rng(3)


def test_a_step_of_inverse_kinematics_is_damped_least_squares() -> None:
    count = 12
    q = np.asarray(kin.HOME_Q) + RNG.uniform(-0.3, 0.3, (count, kin.N_JOINTS))
    pos, rot, jac = kin.forward(q)
    goal_pos = pos + RNG.uniform(-0.02, 0.02, (count, 3))
    goal_rot = kin.exp_rot(RNG.uniform(-0.05, 0.05, (count, 3))) @ rot
    turn = kin.rotvec(goal_rot @ rot.transpose(0, 2, 1))
    error = np.concatenate((goal_pos - pos, turn), axis=1)
    home = kin.NULLSPACE_GAIN * (np.asarray(kin.HOME_Q) - q)
    gram = jac @ jac.transpose(0, 2, 1) + kin.DAMPING**2 * np.eye(6)
    rhs = error[:, :, None] - jac @ home[:, :, None]
    want = q + home + (jac.transpose(0, 2, 1) @ np.linalg.solve(gram, rhs))[:, :, 0]
    goal = np.concatenate((goal_pos, goal_rot.reshape(count, 9)), axis=1).reshape(-1)
    have, work = q.copy(), np.empty(kernels.SCRATCH)
    rows = np.arange(0, count, 2)  # the others stay
    kernels.descend(rows, have.reshape(-1), goal, 0, 12, kin.arm(9.0), 1, work)
    np.testing.assert_allclose(have[::2], want[::2], atol=1e-9)
    assert np.array_equal(have[1::2], q[1::2])


def test_joints_stay_within_their_step_and_their_limits() -> None:
    q = np.tile(np.asarray(kin.HOME_Q), (8, 1))
    far = np.concatenate(
        (RNG.uniform(-3, 3, (8, 3)), np.tile(np.eye(3).reshape(9), (8, 1))), axis=1
    )
    work, numbers = np.empty(kernels.SCRATCH), kin.chain().numbers[96:]
    low, high = numbers[7:14], numbers[14:21]
    for _ in range(60):
        before = q.copy()
        kernels.descend(np.arange(8), q.reshape(-1), far.reshape(-1), 0, 12, kin.arm(), 1, work)
        assert np.abs(q - before).max() <= kin.MAX_STEP_RAD + 1e-12
        assert (q >= low).all()
        assert (q <= high).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_frames_agree_with_mujoco(name: str) -> None:
    """Poses of the gripper and of every role, and velocities as means over a control step."""
    program = Splits(family=name).wide_program()
    sim = BatchSim([sample_scene(program, np.random.default_rng(s)) for s in range(3)])
    frame, planner, everyone = sim.reset(), ScriptedPlanner(), np.ones(3, dtype=np.bool_)
    for _ in range(5):
        chunk = planner(frame, everyone)
        *_, last, frame = sim.step_chunk(chunk, keep=True).frames
    for i in range(3):
        data, layout = sim.data(i), sim.layout(i)
        np.testing.assert_allclose(frame.ee_pos[i], data.site("grip").xpos, atol=1e-6)
        for role, q, _ in layout.free:
            body = data.body(ROLES[role])
            np.testing.assert_allclose(frame.pos[i, role], body.xpos, atol=1e-9)
            np.testing.assert_allclose(frame.rot[i, role].reshape(9), body.xmat, atol=1e-9)
            assert np.array_equal(frame.pos[i, role], sim.state(i)[q : q + 3])
        moved = CONTROL_HZ * (frame.pos[i] - last.pos[i])
        free = [role for role, _, _ in layout.free]
        np.testing.assert_allclose(frame.linvel[i, free], moved[free], atol=1e-9)
        turned = frame.rot[i] @ last.rot[i].transpose(0, 2, 1)
        np.testing.assert_allclose(
            frame.angvel[i, free], CONTROL_HZ * kin.rotvec(turned)[free], atol=1e-6
        )


def test_a_handle_moves_as_its_joint_says() -> None:
    scenes = [task.seed for task in family("articulated").tasks.values()]
    sim = BatchSim(scenes)
    start = sim.reset()
    for i, scene in enumerate(scenes):
        column, rate = sim.layout(i).joint_columns
        state = sim.state(i)
        state[column] += 0.05
        state[rate] = 0.3
        sim.set_state(i, state)
        frame = sim.frame()
        handle = ROLES.index("handle")
        axis, anchor = frame.joint_axis[i], frame.joint_anchor[i]
        if frame.joint_kind[i] == HINGE:
            turn = kin.exp_rot(0.05 * axis[None])[0]
            want = anchor + turn @ (start.pos[i, handle] - anchor)
            speed = 0.3 * np.cross(axis, want - anchor)
        else:
            want, speed = start.pos[i, handle] + 0.05 * axis, 0.3 * axis
        np.testing.assert_allclose(frame.pos[i, handle], want, atol=1e-9, err_msg=str(scene.tau))
        np.testing.assert_allclose(frame.linvel[i, handle], speed, atol=1e-9)


def test_contacts_are_those_of_the_sensors() -> None:
    sim = BatchSim([family("pick-place").seed])
    sim.reset()
    frame = sim.step_chunk(np.zeros((1, CHUNK, 7))).frame
    plan = sim.layout(0).touches
    assert {kind for kind, _, _ in plan} == set(THINGS[:5])
    for column, (kind, i, j) in enumerate(plan):
        arrays = {
            "left": frame.touch_left[0, i],
            "right": frame.touch_right[0, i],
            "table": frame.touch_table[0, i],
            "pair": frame.touch[0, i, j],
            "robot-table": frame.robot_touch_table[0],
        }
        assert arrays[kind] == (sim.physics.touch[0, column] > 0), kind
    assert frame.touch_table[0, ROLES.index("target")] == 1
    assert np.array_equal(frame.touch, frame.touch.transpose(0, 2, 1))


def test_the_tables_of_names_and_of_numbers_belong_together() -> None:
    assert FIELDS.index("ee_pos") == kernels._EE_POS
    assert FIELDS.index("pos") == kernels._OBJ_POS
    assert FIELDS.index("robot_touch_table") == kernels._ROBOT == kernels._TABLE + 4
    assert FIELDS.index("time_s") == kernels._TIME == len(FIELDS) - 1
    assert THINGS.index("pair") == kernels._TOUCH_PAIR
    assert THINGS.index("joint") == kernels._JOINT


def test_where_nothing_can_be_kept_the_code_is_compiled_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = numba.njit

    def without_a_folder(function: Any, **options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return whole(function, **options)

    monkeypatch.setattr(numba, "njit", without_a_folder)

    def double(x: float) -> float:
        return 2.0 * x

    assert kernels._kernel(double)(1.5) == 3.0
