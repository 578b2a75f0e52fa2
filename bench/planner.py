"""Success of the scripted planner, which sees the whole state, on the frozen evaluation files.

Run ``python -m coda.bench.planner``: what a policy could reach on each axis.
"""

from __future__ import annotations

from collections import defaultdict

from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import run_scenes
from coda.sim.splits import EvaluationName, evaluation_set

NAMES: tuple[EvaluationName, ...] = ("in", "ood")


def main() -> None:
    """Print successes per file and label."""
    for name in NAMES:
        evaluation = evaluation_set(name)
        solved: dict[str, list[bool]] = defaultdict(list)
        episodes = run_scenes(evaluation.scenes, ScriptedPlanner())
        for episode, label in zip(episodes, evaluation.axis, strict=True):
            solved["all"].append(episode.success)
            solved[label].append(episode.success)
        for label, won in solved.items():
            print(f"{name:4}{label:16}{sum(won):4}/{len(won)}  {sum(won) / len(won):.0%}")


if __name__ == "__main__":
    main()
