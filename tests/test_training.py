"""Lookahead search and the training tools, on small real runs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coda.policy.batches import actor_groups
from coda.policy.config import DEBUG_POLICY, LearnerConfig
from coda.policy.flow import FlowChunkPolicy
from coda.policy.lookahead import LookaheadConfig, search
from coda.policy.observation import TEXT_DIM
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.program import LearningTools
from coda.policy.replay import SOURCES, Replay
from coda.policy.text import TextEncoder
from coda.sim.families import family, program_task
from coda.sim.gate_program import program_issues
from coda.sim.program import GenerationProgram
from coda.sim.roles import AXES
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from coda.tools.collecting import Collector, RoundBudget, Target, search_config, training_scenes
from coda.tools.combining import combine
from coda.tools.training import seed_policy, train_round

SPLITS = Splits()
BASE = Potential(base_program("pick-place"))


def targets() -> list[Target]:
    """One target for each axis."""
    return [Target(label=a, program=SPLITS.program([a]), potential=BASE) for a in AXES]


def test_search_by_the_potential_alone_solves_wide_scenes() -> None:
    rng = np.random.default_rng(0)
    scenes = [sample_scene(SPLITS.program(["position", "goal"]), rng) for _ in range(12)]
    text = np.zeros((12, TEXT_DIM), np.float32)
    found = search(scenes, BASE, None, text, LookaheadConfig(), rng=rng)
    assert found.success.sum() >= 9
    assert found.simulated_steps > 0
    gains = [label.gain for label in found.labels]
    assert np.mean(gains) > 0.05
    again = search(
        scenes, BASE, None, text, LookaheadConfig(), rng=np.random.default_rng(1), threads=2
    )
    once = search(scenes, BASE, None, text, LookaheadConfig(), rng=np.random.default_rng(1))
    assert [x.action.tobytes() for x in again.labels] == [x.action.tobytes() for x in once.labels]


def test_a_training_program_decides_its_search() -> None:
    budget = RoundBudget(episodes=1, candidates=10, updates=1, policy_share=0.2)
    usual = search_config(LearningTools(), budget)
    assert usual.policy_candidates + usual.servo_candidates == 10
    assert (usual.prefix_chunks, usual.explore_share, usual.policy_share) == (0, 0.0, 0.2)
    asked = LearningTools(lookahead_candidates=24, stage_resets=True, exploration_noise=0.1)
    more = search_config(asked, budget)
    assert more.policy_candidates + more.servo_candidates == 20
    assert more.prefix_chunks > 0
    assert more.explore_share == 0.1


def test_rejected_candidates_are_kept_for_the_critic_alone() -> None:
    rng = np.random.default_rng(0)
    scenes = [sample_scene(SPLITS.seed_program(), rng) for _ in range(3)]
    text = np.zeros((3, TEXT_DIM), np.float32)
    config = LookaheadConfig(servo_candidates=4, rejected=2)
    found = search(scenes, BASE, None, text, config, rng=np.random.default_rng(1))
    assert len(found.rejected) == 2 * len(found.labels)
    chosen = {label.frames[0].tobytes(): label for label in found.labels}
    tried: dict[bytes, set[bytes]] = {}
    for other in found.rejected:
        best = chosen[other.frames[0].tobytes()]
        assert other.scene == best.scene
        assert other.action.tobytes() != best.action.tobytes()
        tried.setdefault(best.frames[0].tobytes(), set()).add(other.action.tobytes())
    several = [len(actions) == 2 for actions in tried.values()]
    assert np.mean(several) > 0.8  # two servo motions can be the same chunk
    handicap = config.noisy_handicap + 4 * config.order_handicap
    for other in found.rejected:
        best = chosen[other.frames[0].tobytes()]
        assert best.success or other.gain <= best.gain + handicap
    every = LookaheadConfig(servo_candidates=4, rejected=9, max_steps=32)
    most = search(scenes, BASE, None, text, every, rng=np.random.default_rng(1))
    assert len(most.rejected) == 3 * len(most.labels)


def test_the_actor_never_imitates_what_was_rejected() -> None:
    replay = Replay()
    budget = RoundBudget(episodes=2, candidates=4, updates=1, rejected=2)
    policy = FlowChunkPolicy(DEBUG_POLICY)
    collector = Collector(policy, replay, budget, TextEncoder(), 1, np.random.default_rng(0), 1)
    collector.collect(targets(), SPLITS, None)
    rejected = replay["weight"] == 0
    kept = sum(s.labels for s in collector.searches)
    assert int((~rejected).sum()) == kept
    assert rejected.sum() > kept  # two of every decision, also of those without a label
    drawn = actor_groups(replay, LearnerConfig(), torch.from_numpy(replay["weight"]))
    rows = np.concatenate([group.numpy() for group, _ in drawn])
    assert rows.size
    assert not rejected[rows].any()


def test_training_scenes_never_lie_in_held_out_cells() -> None:
    rng = np.random.default_rng(0)
    scenes, owners = training_scenes(targets(), 40, SPLITS, compose=1.0, rng=rng)
    assert len(scenes) == len(owners) == 40
    assert not any(SPLITS.held_out(scene) for scene in scenes)
    assert len(set(owners)) > 3


def test_demonstrations_are_made_where_a_training_program_asks_for_them() -> None:
    tools = LearningTools(lookahead=False, planner_demonstrations=2)
    program = base_program("pick-place").model_copy(update={"tools": tools})
    target = Target(label="m", program=SPLITS.seed_program(), potential=Potential(program))
    replay = Replay()
    policy = FlowChunkPolicy(DEBUG_POLICY)
    budget = RoundBudget(episodes=4, candidates=4, updates=1)
    rng = np.random.default_rng(0)
    collector = Collector(policy, replay, budget, TextEncoder(), 3, rng, 1)
    collector.collect([target], SPLITS, None)
    assert collector.searches == []
    assert replay.episodes == 2
    assert set(replay["source"]) == {SOURCES.index("planner")}
    assert set(replay["round"]) == {3}
    assert collector.simulated_steps > 0


def test_combined_programs_keep_every_path_once() -> None:
    both = combine([SPLITS.program(["position"]), SPLITS.program(["yaw"])])
    paths = [edit.path for edit in both.edits]
    assert len(paths) == len(set(paths))
    assert {"sigma.target.xy", "sigma.target.yaw"} <= set(paths)


def test_a_seed_range_that_a_program_spells_out_gives_way_to_another_programs_width() -> None:
    position, yaw = SPLITS.program(["position"]), SPLITS.program(["yaw"])
    both = combine([position, yaw], SPLITS)
    wide = {edit.path: edit.sampler for edit in SPLITS.program(["position", "yaw"]).edits}
    assert {edit.path: edit.sampler for edit in both.edits} == wide


@pytest.mark.parametrize("name", ["pick-place", "articulated", "put-inside", "stack-insert"])
def test_programs_of_different_tasks_and_axes_combine_to_one_that_can_be_drawn(name: str) -> None:
    splits, rng = Splits(family=name), np.random.default_rng(0)
    tasks = list(family(name).tasks)
    programs = [splits.program([axis], task=tasks[i % len(tasks)]) for i, axis in enumerate(AXES)]
    programs.append(splits.program(["asset"]))  # of any task
    for first in programs[:-1]:
        others = [program for program in programs if program is not first]
        both = combine([first, *others], splits)
        assert not program_issues(both)
        drawn = [draw(both, rng, splits) for _ in range(5)]
        kept = [scene for scene in drawn if scene is not None]
        assert kept
        assert {scene.tau.task for scene in kept} == {program_task(first).name}


def draw(program: GenerationProgram, rng: np.random.Generator, splits: Splits) -> Scene | None:
    """A scene of a program under the guard; None where this draw is refused."""
    try:
        return sample_scene(program, rng, guard=splits)
    except Rejected:
        return None


def run_once(threads: int) -> tuple[bytes, int]:
    """Seed and train a tiny policy; its weights and the replay's length."""
    torch.set_num_threads(1)
    text = TextEncoder()
    seeded = seed_policy(
        [SPLITS.seed_program()],
        text,
        demonstrations=4,
        updates=20,
        seed=3,
        threads=threads,
        shape=DEBUG_POLICY,
    )
    result = train_round(
        seeded.policy,
        None,
        seeded.replay,
        targets(),
        RoundBudget(episodes=4, candidates=4, updates=8),
        text=text,
        splits=SPLITS,
        base=BASE,
        round_index=1,
        seed=5,
        threads=threads,
        learner=LearnerConfig(cycles=1, critic_warmup=2, critic_updates=2, candidates=2),
    )
    assert result.report is not None
    assert result.simulated_steps > 0
    assert sum(s.episodes for s in result.searches) == 4
    assert isinstance(result.policy, FlowChunkPolicy)
    state = b"".join(x.numpy().tobytes() for x in result.policy.state_dict().values())
    return state, len(seeded.replay)


@pytest.mark.slow
def test_a_round_is_the_same_on_any_number_of_threads() -> None:
    assert run_once(1) == run_once(2)
