"""The planner's skill of working a fixture."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from coda.sim.engine import BatchSim
from coda.sim.families import family, task_of
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.planner_handle import at_goal, grasp_yaw, moved_by, operates
from coda.sim.predicates import evaluate, holds
from coda.sim.roles import ROLES
from coda.sim.rollout import EpisodeData, run_episodes, run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits

FAMILY = family("articulated")
HANDLE = ROLES.index("handle")
SEEDS = [task.seed for task in FAMILY.tasks.values()]
TASKS = list(FAMILY.tasks)


@pytest.fixture(scope="module")
def seed_episodes() -> list[EpisodeData]:
    """The planner on every task's seed scene, with all control steps."""
    return run_episodes(BatchSim(SEEDS), ScriptedPlanner(), keep_fine=True)


def varied(scene: Scene, *, asset: str, yaw: float, scale: float, damping: float) -> Scene:
    """A seed scene with another fixture, turned, scaled and stiff."""
    pose = scene.sigma.poses["target"].model_copy(update={"yaw": yaw})
    target = scene.alpha.objects["target"].model_copy(
        update={"asset": asset, "scale": scale, "damping": damping}
    )
    return scene.model_copy(
        update={
            "sigma": scene.sigma.model_copy(update={"poses": {"target": pose}}),
            "alpha": scene.alpha.model_copy(update={"objects": {"target": target}}),
        }
    )


def test_every_seed_scene_is_solved_within_its_limit(seed_episodes: list[EpisodeData]) -> None:
    for episode in seed_episodes:
        assert episode.success, episode.scene.tau.task
        assert episode.steps <= task_of(episode.scene).max_steps


def test_reaching_the_goal_does_not_count_while_it_is_held(
    seed_episodes: list[EpisodeData],
) -> None:
    for episode in seed_episodes:
        assert episode.fine is not None
        frames = SimFrame.unpack(episode.fine)
        joint, released, _ = episode.scene.nu.terms
        there, held = evaluate(joint, frames)[0], ~evaluate(released, frames)[0]
        assert (there & held).any(), episode.scene.tau.task
        assert not holds(episode.scene.nu.terms, frames)[there & held].any()


def test_the_fixture_moves_only_towards_its_goal(seed_episodes: list[EpisodeData]) -> None:
    for episode in seed_episodes:
        assert episode.fine is not None
        frames = SimFrame.unpack(episode.fine)
        left = np.abs(frames.opening - frames.joint_goal)
        assert max(b - a for a, b in pairwise(left.tolist())) < 0.02


@pytest.mark.parametrize("task", TASKS)
def test_other_fixtures_turned_scaled_and_stiff_are_solved(task: str) -> None:
    spec = FAMILY.tasks[task]
    scenes = [
        varied(spec.seed, asset=name, yaw=yaw, scale=scale, damping=damping)
        for name in spec.assets["target"]
        for yaw, scale, damping in ((-0.5, 0.85, 3.0), (0.5, 1.2, 0.3))
    ]
    episodes = run_episodes(BatchSim(scenes), ScriptedPlanner())
    failed = [e.scene.alpha.objects["target"].asset for e in episodes if not e.success]
    assert not failed


def test_wide_scenes_of_every_task_are_solved() -> None:
    splits = Splits("articulated")
    scenes = [
        sample_scene(splits.wide_program(task), np.random.default_rng(seed))
        for task in TASKS
        for seed in range(2)
    ]
    episodes = run_scenes(scenes, ScriptedPlanner())
    assert sum(e.success for e in episodes) >= len(scenes) - 1


@pytest.mark.slow
def test_the_planner_solves_95_per_cent_narrow_and_85_per_cent_wide() -> None:
    splits = Splits("articulated")
    for task in TASKS:
        for program, share in (
            (splits.seed_program(task), 0.95),
            (splits.wide_program(task), 0.85),
        ):
            scenes = [sample_scene(program, np.random.default_rng(s)) for s in range(40)]
            episodes = run_scenes(scenes, ScriptedPlanner())
            assert np.mean([e.success for e in episodes]) >= share, (task, program.name)


def test_results_do_not_depend_on_threads_or_batch() -> None:
    together = run_episodes(BatchSim(SEEDS, threads=2), ScriptedPlanner(), max_steps=64)
    for scene, episode in zip(SEEDS[::3], together[::3], strict=True):
        alone = run_episodes(BatchSim([scene]), ScriptedPlanner(), max_steps=64)[0]
        assert alone.frames.tobytes() == episode.frames.tobytes()


def test_the_path_ahead_is_where_the_handle_comes_to() -> None:
    sim = BatchSim(SEEDS)
    frame = sim.reset(settle_steps=0)
    delta = np.where(frame.joint_goal > 0.5, 0.4, -0.4) * frame.joint_span
    ahead = moved_by(frame, delta)
    for i in range(sim.batch):
        state = sim.state(i)
        state[sim.layout(i).joint_columns[0]] += delta[i]
        sim.set_state(i, state)
    assert np.abs(sim.frame().pos[:, HANDLE] - ahead).max() < 1e-9


def test_the_wrist_starts_so_that_the_whole_turn_stays_in_its_middle() -> None:
    sim = BatchSim([FAMILY.tasks[name].seed for name in ("turn-knob", "turn-knob-back")])
    frame = sim.reset()
    start = grasp_yaw(frame, np.zeros(2, dtype=np.bool_))
    span = frame.joint_span[0]
    assert start[0] == pytest.approx(0.0, abs=1e-6)
    assert start[1] == pytest.approx(span, abs=1e-6)


def test_a_fixture_that_the_task_is_about_is_always_operated() -> None:
    sim = BatchSim(SEEDS)
    frame = sim.reset()
    assert operates(frame).all()
    assert not at_goal(frame).any()


def test_scenes_without_a_handle_are_left_to_the_other_skills() -> None:
    sim = BatchSim([family("pick-place").seed])
    assert not operates(sim.reset()).any()
