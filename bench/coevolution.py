"""Co-evolution over several seeds: success before and after, per axis, with standard errors.

Run ``python -m coda.bench.coevolution --seeds 0 1 2``; every run leaves one JSON file in
``bench/results`` with its commit, configuration, seed and wall-clock time, and the table of all
files of the same label is printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda.graphs.config import make_config
from coda.graphs.runner import run
from coda.sim.roles import AXES

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
LABELS = ("all", *AXES, "combined")


def commit() -> str:
    """Short commit of the checkout, with ``+`` where files differ from it."""
    git = ["git", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    ask = [*git, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results"]
    dirty = subprocess.run(ask, capture_output=True, text=True)
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def one(label: str, preset: str, seed: int, overrides: Sequence[str], runs_dir: Path) -> Path:
    """Run one seed and write its JSON file."""
    before = commit()
    config = make_config(
        preset,
        overrides=overrides,
        seed=seed,
        name=f"{label}-seed{seed}",
        runs_dir=str(runs_dir),
    )
    start = time.perf_counter()
    result = run(config)
    record = {
        "label": label,
        "commit": before,
        "seed": seed,
        "wall_s": round(time.perf_counter() - start, 1),
        "config": config.model_dump(mode="json", exclude={"name", "runs_dir"}),
        "result": result.to_json(),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{label}-seed{seed}.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def rate(result: dict[str, Any], split: str, label: str, round_: int) -> float:
    """Success in [0, 1] of one round's policy; nan where it was not measured."""
    for row in result["success"]:
        if (row["split"], row["label"], row["round"]) == (split, label, round_):
            return float(row["successes"]) / max(1, int(row["trials"]))
    return float("nan")


def table(records: Sequence[dict[str, Any]]) -> str:
    """Mean and standard error over seeds of success after fine-tuning and at the end, in %."""
    lines = [
        f"seeds {[r['seed'] for r in records]} · commits {sorted({r['commit'] for r in records})}",
        f"{'':16}{'SFT':>16}{'final':>16}",
    ]
    for split, label in [("in", "all"), *(("ood", label) for label in LABELS)]:
        cells = []
        for last in (False, True):
            values = [
                100 * rate(r["result"], split, label, r["result"]["rounds"] if last else 0)
                for r in records
            ]
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            cells.append(f"{np.mean(values):.1f} ± {error:.1f}")
        name = "In" if split == "in" else f"OOD {label}"
        lines.append(f"{name:16}{cells[0]:>16}{cells[1]:>16}")
    for key in ("confirmed", "refuted", "undecided"):
        lines.append(f"{key:16}{[r['result']['verdicts'].get(key, 0) for r in records]}")
    lines.append(f"{'wall-clock s':16}{[r['wall_s'] for r in records]}")
    return "\n".join(lines)


def read(label: str) -> list[dict[str, Any]]:
    """Every record of a label, by seed."""
    found = [json.loads(p.read_text(encoding="utf-8")) for p in RESULTS.glob(f"{label}-seed*.json")]
    return sorted(found, key=lambda record: int(record["seed"]))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--label", default="laptop", help="name of the experiment")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    parser.add_argument("--table", action="store_true", help="only print what is recorded")
    args = parser.parse_args()
    for seed in [] if args.table else args.seeds:
        one(args.label, args.preset, seed, args.set, args.runs_dir)
    records: list[dict[str, Any]] = read(args.label)
    if not records:
        parser.exit(2, f"no records named {args.label!r} in {RESULTS}; run without --table.\n")
    print(table(records))


if __name__ == "__main__":
    main()
