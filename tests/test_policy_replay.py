"""Replay: states once, chunks between them, shards that come back equal, no copies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coda.policy.base import PolicyError
from coda.policy.growing import Growing
from coda.policy.replay import Replay
from coda.sim.errors import UnknownName
from tests.policy_world import never_closing, replay, successes, text


def test_transitions_point_at_their_states() -> None:
    memory, episode = Replay(), successes()[0]
    count = memory.add(episode, text(), source="planner", weight=2.0)
    assert count == len(episode.lengths) == len(memory)
    assert memory.states == count + 1
    np.testing.assert_array_equal(memory["next_state"][:-1], memory["state"][1:])
    np.testing.assert_allclose(memory.packed, episode.frames, atol=1e-5)
    np.testing.assert_array_equal(memory["steps"], episode.lengths)
    np.testing.assert_array_equal(memory.valid().sum(1), episode.lengths)
    assert memory["terminated"].tolist() == [False] * (count - 1) + [True]
    assert memory["reward"].tolist() == [0.0] * (count - 1) + [1.0]
    assert (memory["weight"] == 2.0).all()


def test_a_timeout_is_truncated_and_a_crash_loses_its_last_chunk() -> None:
    memory, episode = Replay(), never_closing()[0]
    memory.add(episode, text(), source="policy")
    assert memory["truncated"][-1]
    assert not memory["terminated"].any()
    count = len(memory)
    memory.add(episode, text(), source="policy", crashed=True)
    assert len(memory) == 2 * count - 1
    with pytest.raises(UnknownName, match="Did you mean 'planner'"):
        memory.add(episode, text(), source="plannr")


def test_separate_transitions_keep_both_their_states() -> None:
    memory, episode = Replay(), successes()[0]
    pairs = np.stack([episode.frames[:-1], episode.frames[1:]], axis=1)
    won = np.arange(len(pairs)) == len(pairs) - 1
    memory.add_transitions(
        pairs, episode.actions, episode.lengths, won, text(), episode_success=True
    )
    assert memory.states == 2 * len(memory)
    np.testing.assert_allclose(memory.packed[memory["state"]], pairs[:, 0], atol=1e-5)
    np.testing.assert_allclose(memory.packed[memory["next_state"]], pairs[:, 1], atol=1e-5)
    assert memory["terminated"].tolist() == won.tolist()


def test_shards_by_round_come_back_as_they_were(tmp_path: Path) -> None:
    memory, again = replay(), Replay()
    written = [memory.save(tmp_path / f"r{r}.npz", round_index=r) for r in (0, 1)]
    assert sum(written) == len(memory)
    for r in (0, 1):
        again.load(tmp_path / f"r{r}.npz")
    assert (again.states, again.episodes) == (memory.states, memory.episodes)
    for column in ("actions", "steps", "reward", "source", "round", "success", "episode"):
        np.testing.assert_array_equal(again[column], memory[column])
    for column in ("state", "next_state"):
        np.testing.assert_array_equal(again.packed[again[column]], memory.packed[memory[column]])
    mine, other = (m.texts[m.state_text[m["state"]]] for m in (memory, again))
    np.testing.assert_array_equal(mine, other)


def test_a_shard_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    with pytest.raises(PolicyError, match="does not exist"):
        Replay().load(path)
    path.write_bytes(b"torn")
    with pytest.raises(PolicyError, match="not a replay shard"):
        Replay().load(path)
    np.savez(path, version=np.array([0, 0]))
    with pytest.raises(PolicyError, match="Collect the episodes again"):
        Replay().load(path)


def test_growing_arrays_hand_out_views() -> None:
    array = Growing((2,), np.float32)
    array.append(np.ones((3, 2)))
    assert np.shares_memory(array.view, array.view)
    array.append(np.zeros((200, 2)))
    assert array.view.shape == (203, 2)
    assert array.view[:3].all()
    assert not array.view[3:].any()
