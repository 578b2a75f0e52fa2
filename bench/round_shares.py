"""Where the time of a training round goes: simulation, inference, learning, and the rest.

Timers are wrapped around the calls; nothing is sampled. A timed call inside another one counts for
itself only, and the learning's own inference (the candidates of the replay's states) counts as
learning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from coda.graphs.settings import Training
from coda.policy.candidates import ServoCandidates
from coda.policy.config import LearnerConfig
from coda.policy.flow import FlowChunkPolicy
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.text import TextEncoder
from coda.sim.engine import BatchSim
from coda.sim.roles import AXES
from coda.sim.splits import Splits
from coda.tools import collecting, training
from coda.tools.collecting import RoundBudget, Target
from coda.tools.training import seed_policy, train_round

SIMULATION, INFERENCE, LEARNING, SCENES = "simulation", "inference", "learning", "drawing scenes"
REST = "the rest"
TIMED: Sequence[tuple[Any, str, str]] = (
    (BatchSim, "__init__", SIMULATION),
    (BatchSim, "branch", SIMULATION),
    (BatchSim, "reset", SIMULATION),
    (BatchSim, "restore", SIMULATION),
    (BatchSim, "snapshot", SIMULATION),
    (BatchSim, "step_chunk", SIMULATION),
    (FlowChunkPolicy, "observe", INFERENCE),
    (FlowChunkPolicy, "sample", INFERENCE),
    (FlowChunkPolicy, "mode", INFERENCE),
    (Potential, "evaluate", INFERENCE),
    (ServoCandidates, "propose", INFERENCE),
    (training, "update_round", LEARNING),
    (collecting, "training_scenes", SCENES),
)
"""(owner, name of its function, what its time counts as)."""


class Stopwatch:
    """Seconds by kind; of nested calls the inner one's are the inner kind's alone."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds: dict[str, float] = {}
        self._clock = clock
        self._open: list[tuple[str, float]] = []

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Count what happens inside for `kind`; within learning, everything is learning."""
        if any(held == LEARNING for held, _ in self._open):
            yield
            return
        begun = self._clock()
        self._open.append((kind, 0.0))
        try:
            yield
        finally:
            spent = self._clock() - begun
            _, inner = self._open.pop()
            self.seconds[kind] = self.seconds.get(kind, 0.0) + spent - inner
            if self._open:
                outer, known = self._open.pop()
                self._open.append((outer, known + spent))

    @contextmanager
    def around(self, calls: Sequence[tuple[Any, str, str]]) -> Iterator[None]:
        """Time these functions; they are themselves again afterwards."""
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in calls]
        try:
            for (owner, name, function), (_, _, kind) in zip(before, calls, strict=True):
                setattr(owner, name, self._wrap(function, kind))
            yield
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)

    def _wrap(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.timed(kind):
                return function(*args, **kwargs)

        return wrapper


@dataclass(frozen=True, kw_only=True)
class Shares:
    """One round."""

    seconds: float
    shares: dict[str, float]
    """Kind to its share of the time; they sum to 1."""
    simulated_steps: int
    transitions: int


def round_shares(family: str, *, episodes: int, threads: int, seed: int = 0) -> Shares:
    """One real round of training on a family, after a short fine-tuning.

    It is a run's round made small: as many updates for each search as by default.

    Args:
        family: Of tasks.
        episodes: Searches.
        threads: Of torch and of physics; torch's is put back afterwards.
        seed: Of everything random here.
    """
    splits, base, text = Splits(family=family), Potential(base_program(family)), TextEncoder()
    usual, learner = Training(), LearnerConfig()
    part = episodes / usual.episodes
    learner = learner.model_copy(
        update={
            "critic_warmup": round(part * learner.critic_warmup),
            "critic_updates": round(part * learner.critic_updates),
        }
    )
    held = torch.get_num_threads()
    torch.set_num_threads(threads)
    seeded = seed_policy(
        [splits.seed_program()], text, demonstrations=8, updates=100, seed=seed, threads=threads
    )
    targets = [Target(label=axis, program=splits.program([axis]), potential=base) for axis in AXES]
    watch = Stopwatch()
    with watch.around(TIMED), watch.timed(REST):
        result = train_round(
            seeded.policy,
            None,
            seeded.replay,
            targets,
            RoundBudget(
                episodes=episodes,
                candidates=usual.candidates,
                updates=round(part * usual.updates),
            ),
            text=text,
            splits=splits,
            base=base,
            round_index=1,
            seed=seed,
            threads=threads,
            learner=learner,
        )
    torch.set_num_threads(held)
    total = sum(watch.seconds.values())
    return Shares(
        seconds=total,
        shares={kind: seconds / total for kind, seconds in watch.seconds.items()},
        simulated_steps=result.simulated_steps,
        transitions=len(seeded.replay),
    )
