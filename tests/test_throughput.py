"""The learning loop touches rows, never the whole replay; timers count each second once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from coda.bench.policy_throughput import two_threads
from coda.bench.round_shares import LEARNING, REST, TIMED, Stopwatch, round_shares
from coda.policy.actor import ActorTrainer
from coda.policy.batches import Mixture, RoundData, build, refresh
from coda.policy.config import DEBUG_CRITIC, DEBUG_LEARNER
from coda.policy.critic import ChunkCritic
from coda.policy.observation import OBSERVATION_DIM
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.replay import Replay
from coda.policy.values import CriticTrainer
from coda.sim.engine import BatchSim
from tests.policy_world import policy, replay, successes, text

LARGE = 60
"""Times that the successes are stored again, so that a copy of the replay stands out."""


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the largest new tensor that any operation makes [bytes]."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {
            x.untyped_storage().data_ptr()
            for x in tree_flatten((args, kwargs))[0]
            if isinstance(x, torch.Tensor)
        }
        for x in tree_flatten(out)[0]:
            if isinstance(x, torch.Tensor) and x.untyped_storage().data_ptr() not in given:
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return out


def large() -> Replay:
    """Thousands of states."""
    out = replay()
    for _ in range(LARGE):
        for episode in successes():
            out.add(episode, text(), source="lookahead", round_index=1)
    return out


def updates(data: RoundData, count: int) -> Callable[[], None]:
    """So many updates of a small critic and a small policy on a round's data."""
    acting = policy()
    critic = ChunkCritic(DEBUG_CRITIC, obs_dim=OBSERVATION_DIM, chunk_dim=acting.basis.size)
    values = CriticTrainer(critic, data, DEBUG_LEARNER)
    actor = ActorTrainer(acting, DEBUG_LEARNER, count, 1)
    draw = Mixture([(torch.arange(data.transitions), 1.0)], 16)
    generator = torch.Generator().manual_seed(0)

    def run() -> None:
        for _ in range(count):
            values.update(draw.draw(generator), generator)
            actor.update(data, draw.draw(generator), torch.ones(16), generator)

    return run


def test_no_update_copies_the_replay() -> None:
    stored = large()
    data = build(policy(), stored, Potential(base_program("pick-place")), DEBUG_LEARNER)
    refresh(data, policy(), torch.Generator().manual_seed(0))
    run = updates(data, 3)
    run()
    tensors = {k: v for k, v in vars(data).items() if isinstance(v, torch.Tensor)}
    before = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    frames = stored.packed.__array_interface__["data"]
    tracemalloc.start()
    with Largest() as largest:
        run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert {name: getattr(data, name).data_ptr() for name in before} == before
    assert stored.packed.__array_interface__["data"] == frames
    whole = 4 * stored.states * OBSERVATION_DIM
    assert 0 < largest.bytes < whole / 4
    assert peak < stored.packed.nbytes / 4
    assert len(before) >= 10


def test_the_guard_sees_a_copy() -> None:
    data = torch.zeros(1000, 10)
    with Largest() as largest:
        data[:5].sum()
        assert largest.bytes < data.nbytes / 4
        data.clone()
    assert largest.bytes == data.nbytes


def test_a_view_of_the_replay_is_no_copy() -> None:
    stored = replay()
    assert np.shares_memory(stored.packed, stored.packed[3:5])
    assert np.shares_memory(stored["actions"], stored["actions"])


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_nested_call_counts_for_itself_only() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    with watch.timed(REST):
        clock.now += 1
        with watch.timed("a"):
            clock.now += 2
            with watch.timed("b"):
                clock.now += 4
        with watch.timed(LEARNING):
            clock.now += 8
            with watch.timed("b"):
                clock.now += 16
    assert watch.seconds == {REST: 1, "a": 2, "b": 4, LEARNING: 24}


def test_timed_functions_are_themselves_again_after_an_error() -> None:
    before = [getattr(owner, name) for owner, name, _ in TIMED]
    watch = Stopwatch()

    def broken() -> None:
        with watch.around(TIMED):
            assert BatchSim.reset is not before[2]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert [getattr(owner, name) for owner, name, _ in TIMED] == before


def test_two_threads_leave_one_behind() -> None:
    torch.set_num_threads(1)
    assert two_threads(lambda: None, blocks=1) > 0
    assert torch.get_num_threads() == 1


@pytest.mark.slow
def test_a_rounds_shares_sum_to_one() -> None:
    shares = round_shares("pick-place", episodes=2, threads=1)
    assert sum(shares.shares.values()) == pytest.approx(1.0)
    assert {"simulation", "inference", "learning", "drawing scenes", REST} == set(shares.shares)
    assert shares.shares["simulation"] > 0.1
    assert shares.simulated_steps > 0
