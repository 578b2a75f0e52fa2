"""Evaluation of a policy on real scenes: journal, pairing, crashes, and the episode file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coda.memory.progress import Count
from coda.memory.rows import CostRow, EpisodeRow, SceneRow
from coda.memory.rundb import RunDb
from coda.policy.config import DEBUG_POLICY
from coda.policy.flow import FlowChunkPolicy
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.text import TextEncoder
from coda.sim.families import family
from coda.sim.rollout import Outcome
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits
from coda.tools.episode_store import EpisodeStoreError, load_trials, save_trials
from coda.tools.evaluation import Evaluator, Label, Origin, Trial, tally

KEY = "r01:rollout"
ORIGIN = Origin(node_key=KEY, purpose="diagnose", prefix=KEY)


@pytest.fixture(scope="module")
def policy() -> FlowChunkPolicy:
    return FlowChunkPolicy(DEBUG_POLICY, seed=1)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[RunDb]:
    with RunDb(tmp_path / "run.db") as found:
        found.begin_node(KEY)
        yield found


@pytest.fixture
def evaluator(db: RunDb) -> Evaluator:
    base = Potential(base_program("pick-place"))
    return Evaluator(db, TextEncoder(), base, threads=1, max_steps=16)


def scenes(count: int, seed: int = 0) -> list:  # type: ignore[type-arg]
    program, rng = Splits().seed_program(), np.random.default_rng(seed)
    return [sample_scene(program, rng) for _ in range(count)]


def test_episodes_are_journalled_with_their_labels(
    db: RunDb, evaluator: Evaluator, policy: FlowChunkPolicy
) -> None:
    labels = [Label(axis="yaw", program="p1"), Label(axis="size", program="p2", mode_id="m001")]
    trials = evaluator.evaluate(policy, scenes(2), seed=3, origin=ORIGIN, labels=labels)
    rows = db.rows(EpisodeRow)
    assert [row.episode_id for row in rows] == [f"{KEY}:0000", f"{KEY}:0001"]
    assert [(row.axis, row.program, row.mode_id) for row in rows] == [
        ("yaw", "p1", None),
        ("size", "p2", "m001"),
    ]
    assert [row.progress for row in rows] == [trial.progress for trial in trials]
    assert {row.digest for row in db.rows(SceneRow)} == {row.scene_digest for row in rows}
    costs = {row.kind: row.amount for row in db.rows(CostRow)}
    assert costs["sim_steps"] == sum(row.steps for row in rows) == 32
    assert costs["sim_s"] == pytest.approx(1.6)


def test_the_noise_of_a_scene_depends_on_seed_and_place_only(
    evaluator: Evaluator, policy: FlowChunkPolicy
) -> None:
    first = scenes(2)
    other = [first[0], scenes(2, seed=9)[1]]
    a, b, c = (
        evaluator.evaluate(policy, s, seed=seed, origin=replace(ORIGIN, prefix=f"x{i}"))
        for i, (s, seed) in enumerate([(first, 3), (other, 3), (first, 4)])
    )
    np.testing.assert_array_equal(a[0].episode.actions, b[0].episode.actions)
    assert not np.array_equal(a[0].episode.actions, c[0].episode.actions)


def test_trials_read_back_bit_for_bit(
    tmp_path: Path, evaluator: Evaluator, policy: FlowChunkPolicy
) -> None:
    trials = evaluator.evaluate(
        policy, scenes(2), seed=3, origin=ORIGIN, keep_fine=True, keep_states=True
    )
    bare = evaluator.evaluate(policy, scenes(1), seed=3, origin=replace(ORIGIN, prefix="bare"))
    trials = [trials[0], *bare, trials[1]]
    assert trials[0].episode.states is not None
    save_trials(tmp_path / "a.npz", trials)
    found = load_trials(tmp_path / "a.npz")
    assert [(t.episode_id, t.progress, t.stage) for t in found] == [
        (t.episode_id, t.progress, t.stage) for t in trials
    ]
    for new, old in zip(found, trials, strict=True):
        assert new.episode.scene == old.episode.scene
        assert new.episode.outcome is old.episode.outcome
        for name in ("frames", "actions", "lengths", "fine", "states"):
            np.testing.assert_array_equal(getattr(new.episode, name), getattr(old.episode, name))


def test_no_trials_read_back_as_none(tmp_path: Path) -> None:
    save_trials(tmp_path / "a.npz", [])
    assert load_trials(tmp_path / "a.npz") == []


def test_a_damaged_episode_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK nonsense")
    with pytest.raises(EpisodeStoreError, match="cannot read the episodes"):
        load_trials(tmp_path / "a.npz")


def test_a_crash_counts_neither_way(evaluator: Evaluator, policy: FlowChunkPolicy) -> None:
    trial = evaluator.evaluate(policy, [family("pick-place").seed], seed=0, origin=ORIGIN)[0]
    outcomes = (Outcome.CRASHED, Outcome.SUCCESS, Outcome.TIMEOUT)
    trials: list[Trial] = [
        replace(trial, episode=replace(trial.episode, outcome=outcome)) for outcome in outcomes
    ]
    assert tally(trials) == Count(successes=1, trials=2)
