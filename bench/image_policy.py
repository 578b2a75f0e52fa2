"""The image policy learns: demonstrations, fine-tuning, one round of search, by pictures alone.

Run ``python -m coda.bench.image_policy --seeds 0 1 2``; every seed leaves one JSON file in
``bench/results`` with its commit, configuration, seed, wall-clock and processor time, and the table
of all of them is printed. The policy is measured on fresh scenes of the narrow range that was
demonstrated, on the family's In file, which is much wider, and, as a control, on the same narrow
scenes with grey pictures: what that solves, nobody needs to see.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from coda.bench.coevolution import RESULTS, commit, read
from coda.policy.backbones import policy_label
from coda.policy.base import ChunkPolicy
from coda.policy.config import CriticConfig, LearnerConfig, PictureConfig, PolicyConfig
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.text import TextEncoder, shared_encoder
from coda.sim.cameras import Pictures
from coda.sim.frame import Array, SimFrame
from coda.sim.predicates import Bool
from coda.sim.roles import AXES
from coda.sim.rollout import Outcome, run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits, evaluation_set
from coda.tools.acting import embed, policy_actor
from coda.tools.collecting import RoundBudget, Target
from coda.tools.training import seed_policy, train_round

FAMILY = "pick-place"
LABEL = "image"
SCENES = 64
GREY = 128
MAX_STEPS = 200

Tally = dict[str, int]


class Setting:
    """One seed's scenes and tools."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.text: TextEncoder = shared_encoder()
        self.splits = Splits(family=FAMILY)
        self.base = Potential(base_program(FAMILY))
        rng = np.random.default_rng([seed, 1])
        self.narrow = [sample_scene(self.splits.seed_program(), rng) for _ in range(SCENES)]
        self.wide = list(evaluation_set("in", FAMILY).scenes)[:SCENES]

    def success(
        self, policy: ChunkPolicy, scenes: Sequence[Scene], *, blind: bool = False
    ) -> Tally:
        """Episodes and successes; crashes are left out. A blind policy is shown grey."""
        rows = embed(self.text, scenes)
        actor = policy_actor(policy, rows, seed=self.seed)
        if blind and policy.view is not None:
            grey: Pictures = np.full((len(scenes), *policy.view.shape), GREY, dtype=np.uint8)
            generator = torch.Generator().manual_seed(self.seed)

            def unseeing(frame: SimFrame, active: Bool) -> Array:
                del active  # Unused.
                obs = policy.observe(frame, rows, grey)
                chunk = policy.sample(obs, 1, generator=generator, temperature=0.0)[:, 0]
                return chunk.numpy().astype(np.float64)

            actor = unseeing
        episodes = run_scenes(scenes, actor, max_steps=MAX_STEPS)
        known = [e.success for e in episodes if e.outcome is not Outcome.CRASHED]
        return {"successes": sum(known), "trials": len(known)}

    def measure(self, policy: ChunkPolicy) -> dict[str, Tally]:
        """All that is measured after a stage."""
        return {
            "narrow": self.success(policy, self.narrow),
            "narrow, grey pictures": self.success(policy, self.narrow, blind=True),
            "In": self.success(policy, self.wide),
        }


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What a seed has come to."""

    config: dict[str, Any]
    result: dict[str, Any]
    cpu_s: dict[str, float]
    """Processor time of each stage, with its measurement."""


def learn(setting: Setting, shape: PolicyConfig, args: argparse.Namespace) -> Learned:
    """Fine-tune, measure, search and learn one round on every axis, measure again."""
    began = time.process_time()
    seeded = seed_policy(
        [setting.splits.seed_program()],
        setting.text,
        demonstrations=args.demonstrations,
        updates=args.updates,
        seed=setting.seed,
        shape=shape,
        backbone="image",
    )
    stages = {"SFT": setting.measure(seeded.policy)}
    cpu_s = {"SFT": round(time.process_time() - began, 1)}
    budget = RoundBudget(episodes=args.episodes, candidates=8, updates=args.round_updates)
    targets = [
        Target(label=axis, program=setting.splits.program((axis,)), potential=setting.base)
        for axis in AXES
    ]
    trained = train_round(
        seeded.policy,
        None,
        seeded.replay,
        targets,
        budget,
        text=setting.text,
        splits=setting.splits,
        base=setting.base,
        round_index=1,
        seed=setting.seed,
    )
    stages["round 1"] = setting.measure(trained.policy)
    cpu_s["round 1"] = round(time.process_time() - began - cpu_s["SFT"], 1)
    config = {
        "family": FAMILY,
        "demonstrations": args.demonstrations,
        "updates": args.updates,
        "budget": vars(budget),
        "policy": shape.model_dump(mode="json"),
        "learner": LearnerConfig().model_dump(mode="json"),
        "critic": CriticConfig().model_dump(mode="json"),
    }
    result = {
        "success": stages,
        "fine-tuning": seeded.report.summary(),
        "round": trained.report.summary() if trained.report else {},
        "labels": sum(search.labels for search in trained.searches),
        "searches solved": sum(search.solved for search in trained.searches),
        "simulated steps": seeded.simulated_steps + trained.simulated_steps,
    }
    return Learned(config=config, result=result, cpu_s=cpu_s)


def one(seed: int, args: argparse.Namespace) -> None:
    """Run one seed and write its JSON file."""
    before, start = commit(), time.perf_counter()
    shape = PolicyConfig(encoder_blocks=1, pictures=PictureConfig(channels=args.channels))
    learned = learn(Setting(seed), shape, args)
    record = {
        "label": LABEL,
        "policy": policy_label("image", shape),
        "commit": before,
        "seed": seed,
        "wall_s": round(time.perf_counter() - start, 1),
        **asdict(learned),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{LABEL}-seed{seed}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def table(records: Sequence[dict[str, Any]]) -> str:
    """Mean and standard error over seeds of success, in %, after each stage."""
    stages = list(records[0]["result"]["success"])
    lines = [
        f"policy: {records[0]['policy']}",
        f"seeds {[r['seed'] for r in records]} · commits {sorted({r['commit'] for r in records})}",
        f"{'':24}" + "".join(f"{stage:>16}" for stage in stages),
    ]
    for name in records[0]["result"]["success"][stages[0]]:
        cells = []
        for stage in stages:
            tallies = [r["result"]["success"][stage][name] for r in records]
            values = [100 * t["successes"] / max(1, t["trials"]) for t in tallies]
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            cells.append(f"{np.mean(values):.1f} ± {error:.1f}")
        lines.append(f"{name:24}" + "".join(f"{cell:>16}" for cell in cells))
    cpu = [round(sum(r["cpu_s"].values())) for r in records]
    lines.append(f"processor s {cpu} · wall-clock s {[round(r['wall_s']) for r in records]}")
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--demonstrations", type=int, default=60)
    parser.add_argument("--updates", type=int, default=700, help="of the fine-tuning")
    parser.add_argument("--episodes", type=int, default=64, help="searched in the round")
    parser.add_argument("--round-updates", type=int, default=700, help="of the actor in the round")
    parser.add_argument("--channels", type=int, default=16, help="feature maps of each camera")
    parser.add_argument("--table", action="store_true", help="only print what is recorded")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for seed in [] if args.table else args.seeds:
        one(seed, args)
    records: list[dict[str, Any]] = read(LABEL)
    if not records:
        parser.exit(2, f"no records named {LABEL!r} in {RESULTS}; run without --table.\n")
    print(table(records))


if __name__ == "__main__":
    main()
