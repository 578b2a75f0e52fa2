"""Success of the scripted planner, which sees the whole state, on the frozen evaluation files.

Run ``python -m coda.bench.planner [--family NAME] [--set in|ood]``: what a policy could reach, per
family, task and axis, and where the planner's failures end.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.sim.cells import away
from coda.sim.errors import CodaError
from coda.sim.families import FAMILIES, family
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import evaluate
from coda.sim.roles import AXES
from coda.sim.rollout import EpisodeData, Outcome, run_scenes
from coda.sim.splits import EvaluationName, evaluation_set


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One scene and how the planner's episode on it ended."""

    index: int
    """Its number in the file."""
    label: str
    episode: EpisodeData

    @property
    def task(self) -> str:
        """The scene's task."""
        return self.episode.scene.tau.task

    def cause(self, potential: Potential) -> str:
        """Stage of the best state and of the last one, the verifier's terms unmet, what is far."""
        if self.episode.outcome is Outcome.CRASHED:
            return "the simulation crashed"
        frame = SimFrame.unpack(self.episode.frames)
        value = potential.evaluate(frame)
        best, last = potential.stages[value.stage[value.phi.argmax()]], value.stage[-1]
        broken = [str(t) for t in self.episode.scene.nu.terms if not evaluate(t, frame)[0][-1]]
        why = ", ".join(broken) or "nothing, but it did not last"
        far = [axis for axis in AXES if away(axis, self.episode.scene)]
        return (
            f"got to {best}, ended at {potential.stages[last]}; unmet: {why}; "
            f"away from the seed range: {', '.join(far) or 'nothing'}"
        )


def attempts(family_name: str, name: EvaluationName, *, threads: int = 1) -> list[Attempt]:
    """The planner's episodes on an evaluation file, in its order."""
    chosen = evaluation_set(name, family_name)
    episodes = run_scenes(chosen.scenes, ScriptedPlanner(), threads=threads)
    return [
        Attempt(index=i, label=label, episode=episode)
        for i, (label, episode) in enumerate(zip(chosen.axis, episodes, strict=True))
    ]


def table(tried: Sequence[Attempt]) -> Iterator[str]:
    """Lines ``group solved/tried share``: all, by task where there are several, by axis."""
    groups: dict[str, list[bool]] = defaultdict(list)
    tasks = list(dict.fromkeys(one.task for one in tried))
    for one in tried:
        names = ["all", *([f"task {one.task}"] if len(tasks) > 1 else []), f"axis {one.label}"]
        for group in names:
            groups[group].append(one.episode.success)
    order = ["all", *(f"task {t}" for t in tasks), *(g for g in groups if g.startswith("axis "))]
    for group in (group for group in order if group in groups):
        won = groups[group]
        yield f"  {group:24}{sum(won):4}/{len(won):<4} {sum(won) / len(won):.0%}"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0, or 2 for an error of the user."""
    parser = argparse.ArgumentParser(prog="python -m coda.bench.planner", description=__doc__)
    parser.add_argument("--family", action="append", help="one family only; may be repeated")
    parser.add_argument("--set", choices=get_args(EvaluationName), help="one file only")
    parser.add_argument("--threads", type=int, default=1, help="worker threads for physics")
    options = parser.parse_args(argv)
    names: Sequence[EvaluationName] = [options.set] if options.set else get_args(EvaluationName)
    try:
        for family_name in options.family or FAMILIES:
            potential = Potential(base_program(family(family_name).name))
            for name in names:
                tried = attempts(family_name, name, threads=options.threads)
                print(f"{family_name} {name}", *table(tried), sep="\n")
                for one in (one for one in tried if not one.episode.success):
                    print(
                        f"  failed {family_name}:{name}:{one.index} {one.task} ({one.label}): "
                        f"{one.cause(potential)}",
                        flush=True,
                    )
    except CodaError as error:
        print(f"coda: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
