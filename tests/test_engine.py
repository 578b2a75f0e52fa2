"""The engine: bit-identical results, exact snapshots, clocks, crashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from coda.sim import kinematics
from coda.sim.engine import CHUNK, CONTROL_HZ, ROT_SCALE_RAD, BatchSim, substeps
from coda.sim.errors import SimulationError
from coda.sim.families import family
from coda.sim.mjcf import PHYSICS_DT_S
from coda.sim.motion import servo_chunk
from coda.sim.planner import ScriptedPlanner
from coda.sim.roles import Role
from coda.sim.rollout import run_episodes
from coda.sim.sampling import sample_scene
from coda.sim.scene import Pose, RobotStart, Scene, Spatial
from coda.sim.splits import Splits

SCENES = [sample_scene(Splits().wide_program(), np.random.default_rng(s)) for s in range(6)]


def trajectory(scenes: Sequence[Scene], threads: int) -> list[bytes]:
    """Packed frames of planner rollouts, as bytes."""
    sim = BatchSim(scenes, threads=threads)
    episodes = run_episodes(sim, ScriptedPlanner(), max_steps=64)
    sim.close()
    return [episode.frames.tobytes() for episode in episodes]


def test_the_clocks_divide_exactly() -> None:
    steps = substeps(CONTROL_HZ, PHYSICS_DT_S)
    assert pytest.approx(1.0, abs=1e-12) == steps * CONTROL_HZ * PHYSICS_DT_S
    with pytest.raises(SimulationError, match=r"is 16\.667 physics steps of 0\.003 s"):
        substeps(CONTROL_HZ, 0.003)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    assert trajectory(SCENES, 1) == trajectory(SCENES, 3)


def test_kept_states_do_not_depend_on_the_number_of_threads() -> None:
    """Also where scenes are not stepped at all."""
    kept = []
    for threads in (1, 3):
        sim = BatchSim(SCENES, threads=threads)
        frame = sim.reset()
        active = np.array([True, True, False, True, True, True])
        for _ in range(3):
            result = sim.step_chunk(ScriptedPlanner()(frame, active), active, keep=True)
            frame = result.frame
            kept.append([f.pack().tobytes() for f in result.frames])
            assert len(result.frames) == CHUNK
            assert result.frames[-1].pack().tobytes() == frame.pack().tobytes()
    assert kept[:3] == kept[3:]


def test_results_do_not_depend_on_the_batch() -> None:
    together = trajectory(SCENES, 1)
    apart = [trajectory([scene], 1)[0] for scene in SCENES]
    assert together == apart
    assert trajectory(SCENES[::-1], 2) == together[::-1]


def test_a_restored_snapshot_in_the_middle_of_a_grasp_goes_on_bit_identically() -> None:
    sim = BatchSim(SCENES[:3])
    planner = ScriptedPlanner()
    frame = sim.reset()
    everyone = np.ones(3, dtype=np.bool_)
    for _ in range(5):  # into the grasp
        frame = sim.step_chunk(planner(frame, everyone)).frame
    assert (frame.gripper_command > 0).any()
    snapshot = sim.snapshot()
    chunk = planner(frame, everyone)
    first = sim.step_chunk(chunk).frame.pack()
    sim.step_chunk(-chunk)  # somewhere else
    sim.restore(snapshot)
    assert np.array_equal(sim.frame().pack(), frame.pack())
    again = sim.step_chunk(chunk).frame.pack()
    assert first.tobytes() == again.tobytes()


def test_branches_equal_the_trunk() -> None:
    sim = BatchSim(SCENES[:2])
    frame = sim.reset()
    chunk = ScriptedPlanner()(frame, np.ones(2, dtype=np.bool_))
    snapshot = sim.snapshot()
    branches = sim.branch(3)
    branches.restore(snapshot, [0, 0, 0, 1, 1, 1])
    many = branches.step_chunk(np.repeat(chunk, 3, axis=0)).frame.pack()
    trunk = sim.step_chunk(chunk).frame.pack()
    assert np.array_equal(many, np.repeat(trunk, 3, axis=0))


def test_a_non_finite_state_is_a_crash_and_not_a_failure() -> None:
    sim = BatchSim(SCENES[:2])
    sim.reset()
    state = sim.state(0)
    state[1 + sim.models[0].nq] = np.nan
    sim.set_state(0, state)
    result = sim.step_chunk(np.zeros((2, CHUNK, 7)))
    assert result.crashed.tolist() == [True, False]
    assert result.steps.tolist() == [1, CHUNK]


def test_inactive_scenes_stand_still() -> None:
    sim = BatchSim(SCENES[:2])
    before = sim.reset().pack()
    actions = np.full((2, CHUNK, 7), 0.3)
    result = sim.step_chunk(actions, np.array([True, False]))
    assert result.steps.tolist() == [CHUNK, 0]
    assert np.array_equal(result.frame.pack()[1], before[1])
    assert not np.array_equal(result.frame.pack()[0], before[0])


@pytest.mark.parametrize("shape", [(1, CHUNK, 7), (2, CHUNK, 6), (2, 7)])
def test_actions_of_a_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    sim = BatchSim(SCENES[:2])
    with pytest.raises(SimulationError, match=r"actions have shape .* expected \(2, H, 7\)"):
        sim.step_chunk(np.zeros(shape))


def test_the_controller_is_accurate_over_the_workspace() -> None:
    """At most 3 mm and 1 degree at steady state, turned grips included."""
    rng = np.random.default_rng(0)
    count = 48
    low, high = (0.34, -0.26, 0.06), (0.64, 0.26, 0.35)
    starts = rng.uniform(low, high, (count, 3))
    yaws = rng.uniform(-1.2, 1.2, count)
    seed = family("pick-place").seed
    aside: dict[Role, Pose] = {
        "target": Pose(xy=(0.30, -0.40)),
        "receptacle": Pose(xy=(0.30, 0.40)),
    }
    sim = BatchSim(
        [
            seed.model_copy(
                update={"sigma": Spatial(poses=aside, robot=RobotStart(xyz=xyz, yaw=yaw))}
            )
            for xyz, yaw in zip(map(tuple, starts.tolist()), yaws.tolist(), strict=True)
        ]
    )
    frame = sim.reset()
    goal = rng.uniform(low, high, (count, 3))
    turn = rng.uniform(-1.2, 1.2, count) - yaws
    gripper = np.full(count, -1.0)
    for _ in range(8):
        chunk = servo_chunk(frame, goal, turn, gripper)
        turn = turn - chunk[:, :, 5].sum(axis=1) * ROT_SCALE_RAD
        frame = sim.step_chunk(chunk).frame
    assert np.linalg.norm(frame.command_pos - goal, axis=1).max() < 1e-6
    assert np.linalg.norm(frame.ee_pos - goal, axis=1).max() < 0.003
    off = kinematics.rotvec(frame.ee_rot @ frame.command_rot.transpose(0, 2, 1))
    assert np.rad2deg(np.linalg.norm(off, axis=1)).max() < 1.0


def test_the_planner_solves_its_scenes() -> None:
    scenes = [sample_scene(Splits().seed_program(), np.random.default_rng(s)) for s in range(16)]
    episodes = run_episodes(BatchSim(scenes), ScriptedPlanner())
    assert sum(episode.success for episode in episodes) >= 15


def test_an_object_that_leaves_the_table_is_a_failure_and_not_a_crash() -> None:
    sim = BatchSim(SCENES[:1])
    sim.reset()
    (_, column, _), *_ = sim.layout(0).free
    state = sim.state(0)
    state[column] = 1.5  # beside the table
    sim.set_state(0, state)
    idle = np.zeros((1, CHUNK, 7))
    for _ in range(16):
        result = sim.step_chunk(idle)
        assert not result.crashed[0]
    assert -0.6 < result.frame.pos[0, 0, 2] < -0.4
