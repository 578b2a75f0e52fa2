"""Training signals compared on one curriculum: the paper's Table 4, and what lookahead adds.

A recorded curriculum (`coda.bench.curriculum`) gives for every round the generation programs with
their compiled potentials, and how to fine-tune the policy of a seed. Every signal then trains from
that policy on those programs, round by round, for the same number of simulated control steps
(branches of a search count) and of policy updates; nothing else differs. Without lookahead the
data are the policy's own rollouts.

Run ``python -m coda.bench.signals bench/curricula/*.json --seeds 0 1 2 --lookahead off on``; every
training leaves one JSON file in ``bench/results``. `coda.bench.signals_table` prints the tables of
all of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import torch

from coda.bench.coevolution import RESULTS, commit
from coda.bench.curriculum import Curriculum, load
from coda.graphs.measuring import balanced
from coda.policy.agreement import converged_agreement
from coda.policy.base import ChunkPolicy
from coda.policy.config import Signal
from coda.policy.critic import ChunkCritic
from coda.policy.potential import Potential, StatePotential
from coda.policy.replay import Replay
from coda.policy.text import TextEncoder, shared_encoder
from coda.sim.errors import CodaError
from coda.sim.rollout import run_scenes
from coda.sim.splits import EvaluationSet, Splits, evaluation_set
from coda.tools.acting import Acting, Selected, embed, policy_actor
from coda.tools.collecting import RoundBudget, Target
from coda.tools.targets_file import value_potential
from coda.tools.training import train_round

SIGNALS: tuple[Signal, ...] = get_args(Signal)
BATCH = 64
ROLLOUT_STEPS, SEARCH_STEPS = 110.0, 1000.0
"""Control steps that an episode and a search are taken to cost before any was measured."""


ROLLOUT_LEARNER: Mapping[str, Any] = MappingProxyType(
    {"failure_weight": 1.0, "advantage": "step", "temperature": 1.0, "max_weight": 20.0}
)
"""Without a search most chunks are of failed episodes: what they are worth is for the signal's
advantages to say, and nothing else can."""


class SignalsError(CodaError):
    """A comparison cannot be made of what was given."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What every training may spend. Counts only."""

    rounds: int = 3
    steps: int = 40_000
    """Simulated control steps of a round, branches included."""
    updates: int = 1000
    """Actor updates of a round."""
    candidates: int = 8
    """Chunks simulated at each decision of a search."""
    rejected: int = 0
    """Candidates of every decision that the critic learns from, beside the best."""
    explore: float = 0.1
    """Share of the rollouts' chunks that are random motions."""
    scenes: int = 96
    """OOD scenes of every evaluation."""
    converged_updates: int = 2000
    """Critic updates after which the critics' choices are compared; 0 for no comparison."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """A curriculum for one seed: how to start, and what each round is about."""

    curriculum: Curriculum
    seed: int
    rounds: tuple[tuple[Target, ...], ...]
    base: Potential

    @property
    def family(self) -> str:
        """Name of the task family."""
        return self.curriculum.family


def read_courses(path: Path, seeds: Sequence[int], rounds: int) -> list[Course]:
    """Read a recorded curriculum. Raises `SignalsError` where it has fewer rounds."""
    curriculum = load(path)
    there = len(curriculum.rounds)
    if there < rounds:
        raise SignalsError(
            f"{path} recorded {there} rounds of training, {rounds} are wanted; give --rounds "
            f"{there}, or the curriculum of a longer run."
        )
    read = [file.compiled() for file in curriculum.rounds[:rounds]]
    targets = tuple(targets for targets, _ in read)
    return [
        Course(curriculum=curriculum, seed=seed, rounds=targets, base=read[0][1]) for seed in seeds
    ]


def targets_for(course: Course, signal: Signal, round_: int) -> list[Target]:
    """A round's targets with the potentials that a signal may use; `round_` counts from 1.

    `description`: the family's own. `no-refinement`: the first that was compiled for a mode.
    """
    targets = list(course.rounds[round_ - 1])
    if signal == "description":
        return [replace(target, potential=course.base) for target in targets]
    if signal == "no-refinement":
        first: dict[str, Potential] = {}
        for target in (t for earlier in course.rounds[:round_] for t in earlier):
            if target.potential.program != course.base.program:
                first.setdefault(target.label, target.potential)
        return [replace(t, potential=first.get(t.label, t.potential)) for t in targets]
    return targets


class _Training:
    """One signal, with or without lookahead, from the seed's fine-tuned policy."""

    def __init__(self, course: Course, signal: Signal, lookahead: bool, budget: Budget) -> None:
        self.course, self.signal, self.lookahead, self.budget = course, signal, lookahead, budget
        self.text: TextEncoder = shared_encoder()
        self.splits = Splits(family=course.family)
        start = course.curriculum.start(self.text, course.seed)
        self.policy: ChunkPolicy = start.policy
        self.replay: Replay = start.replay
        self.critic: ChunkCritic | None = None
        self.potential: StatePotential = course.base
        self.steps = 0
        self.episodes = 0
        own = {} if lookahead else ROLLOUT_LEARNER
        self.config = course.curriculum.learner.model_copy(update={**own, "signal": signal})
        full: EvaluationSet = evaluation_set("ood", course.family)
        chosen = balanced(full.axis, budget.scenes)
        self.scenes = [full.scenes[i] for i in chosen]

    def count(self, round_: int) -> int:
        """Episodes or searches of a round, so that the steps so far come to the budget's."""
        usual = SEARCH_STEPS if self.lookahead else ROLLOUT_STEPS
        cost = self.steps / self.episodes if self.episodes else usual
        return max(1, round((round_ * self.budget.steps - self.steps) / cost))

    def train(self, round_: int) -> dict[str, Any]:
        """One round; returns its record."""
        count, budget = self.count(round_), self.budget
        targets = targets_for(self.course, self.signal, round_)
        result = train_round(
            self.policy,
            self.critic,
            self.replay,
            targets,
            RoundBudget(
                episodes=count if self.lookahead else 0,
                rollouts=0 if self.lookahead else count,
                candidates=budget.candidates,
                rejected=budget.rejected,
                updates=budget.updates,
                explore=budget.explore,
                policy_share=0.1,
            ),
            text=self.text,
            splits=self.splits,
            base=self.course.base,
            previous=self.potential,
            round_index=round_,
            seed=1000 * self.course.seed + round_,
            learner=self.config,
        )
        self.critic, self.potential = result.critic, value_potential(targets, self.course.base)
        self.steps += result.simulated_steps
        self.episodes += count
        new = self.replay["round"] == round_
        return {
            "round": round_,
            "updates": round_ * budget.updates,
            "simulated_steps": self.steps,
            "collected": count,
            "transitions": int(new.sum()),
            "solved_share": float(self.replay["success"][new].mean()) if new.any() else 0.0,
            "ood": self.evaluate(),
            "report": result.report.summary() if result.report is not None else None,
        }

    def acting(self) -> Acting:
        """The policy as it acts under the signal."""
        if self.signal != "frozen-actor" or self.critic is None:
            return self.policy
        return Selected(policy=self.policy, critic=self.critic, potential=self.potential)

    def evaluate(self) -> float:
        """OOD success in [0, 1]; the noise is the same at every call."""
        won = 0
        for start in range(0, len(self.scenes), BATCH):
            part = self.scenes[start : start + BATCH]
            actor = policy_actor(self.acting(), embed(self.text, part), seed=start)
            won += sum(episode.success for episode in run_scenes(part, actor))
        return won / len(self.scenes)


def train_signal(course: Course, signal: Signal, lookahead: bool, budget: Budget) -> dict[str, Any]:
    """Train one signal for all rounds; returns the record of its JSON file."""
    start = time.perf_counter()
    before = commit()
    training = _Training(course, signal, lookahead, budget)
    curve: list[dict[str, Any]] = [
        {"round": 0, "updates": 0, "simulated_steps": 0, "ood": training.evaluate()}
    ]
    for round_ in range(1, budget.rounds + 1):
        curve.append(training.train(round_))
        print(
            f"{course.family} {signal}{' + lookahead' if lookahead else ''} seed {course.seed} "
            f"round {round_}: OOD {100 * curve[-1]['ood']:.1f} %, "
            f"{curve[-1]['simulated_steps']} steps",
            flush=True,
        )
    agreement = None
    if budget.converged_updates and signal != "sparse":
        agreement = converged_agreement(
            training.policy,
            training.replay,
            training.potential,
            training.config,
            updates=budget.converged_updates,
            seed=course.seed,
        ).summary()
    return {
        "label": label(course.family, signal, lookahead),
        "commit": before,
        "family": course.family,
        "signal": signal,
        "lookahead": lookahead,
        "seed": course.seed,
        "wall_s": round(time.perf_counter() - start, 1),
        "budget": asdict(budget),
        "learner": training.config.model_dump(mode="json"),
        "curve": curve,
        "agreement": agreement,
    }


def label(family: str, signal: str, lookahead: bool) -> str:
    """Start of a result file's name."""
    return f"signals-{family}-{signal}{'-lookahead' if lookahead else ''}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("curricula", type=Path, nargs="+", help="recorded curricula")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--signals", nargs="*", choices=SIGNALS, default=list(SIGNALS))
    parser.add_argument("--lookahead", nargs="*", choices=("off", "on"), default=["off"])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--again", action="store_true", help="also what has a file already")
    for name, value in asdict(Budget()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    args = parser.parse_args()
    torch.set_num_threads(1)
    budget = Budget(**{name: getattr(args, name) for name in asdict(Budget())})
    try:
        courses = [c for f in args.curricula for c in read_courses(f, args.seeds, budget.rounds)]
        jobs = _jobs(courses, args.signals, args.lookahead)
        for course, signal, lookahead in jobs:
            name = f"{label(course.family, signal, lookahead)}-seed{course.seed}.json"
            path = args.results / name
            if path.exists() and not args.again:
                continue
            record = train_signal(course, signal, lookahead, budget)
            args.results.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except CodaError as error:
        parser.exit(2, f"{error}\n")


def _jobs(
    courses: Sequence[Course], signals: Sequence[Signal], lookahead: Sequence[str]
) -> list[tuple[Course, Signal, bool]]:
    """What to train, course by course; a frozen actor learns nothing from a search."""
    return [
        (course, signal, use == "on")
        for course in courses
        for use in lookahead
        for signal in signals
        if not (use == "on" and signal == "frozen-actor")
    ]


if __name__ == "__main__":
    main()
