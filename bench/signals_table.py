"""Tables and learning curves of the trainings that `coda.bench.signals` has recorded.

Run ``python -m coda.bench.signals_table``; ``--curves FILE.svg`` also draws OOD success over
updates of the shaped and the sparse critic (the paper's Figure 4).
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.bench.coevolution import RESULTS
from coda.bench.signals import SIGNALS
from coda.sim.families import FAMILIES

TARGET = 0.25
"""OOD success whose updates are counted."""

Array = npt.NDArray[np.float64]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """Mean and standard error over seeds."""

    mean: float
    error: float
    """nan for fewer than two values."""
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of finite values; nan where there are none."""
        kept = [value for value in values if np.isfinite(value)]
        mean = float(np.mean(kept)) if kept else float("nan")
        error = float(np.std(kept, ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else float("nan")
        return cls(mean, error, len(kept))

    def text(self, digits: int = 1) -> str:
        """For people; ``–`` where nothing was measured."""
        if not self.count:
            return "–"
        error = f" ± {self.error:.{digits}f}" if np.isfinite(self.error) else ""
        return f"{self.mean:.{digits}f}{error}"


def read(folder: Path) -> list[Record]:
    """All records in a folder, by name."""
    files = sorted(folder.glob("signals-*-seed*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def final(record: Record) -> float:
    """OOD success after the last round, in %."""
    return 100.0 * float(record["curve"][-1]["ood"])


def updates_to(record: Record, target: float = TARGET) -> float:
    """Updates at which the curve first reaches a success, linear between rounds; nan if never."""
    curve = record["curve"]
    if curve[0]["ood"] >= target:
        return 0.0
    for before, after in itertools.pairwise(curve):
        if after["ood"] >= target:
            part = (target - before["ood"]) / (after["ood"] - before["ood"])
            return float(before["updates"] + part * (after["updates"] - before["updates"]))
    return float("nan")


def chosen(
    records: Sequence[Record], family: str | None, signal: str, lookahead: bool
) -> list[Record]:
    """Records of a cell; of all families where None."""
    return [
        r
        for r in records
        if r["signal"] == signal and r["lookahead"] == lookahead and family in (None, r["family"])
    ]


def average(records: Sequence[Record], families: Sequence[str]) -> Spread:
    """Final success averaged over families, by the seeds that every family has."""
    by_seed: dict[int, dict[str, float]] = {}
    for record in records:
        by_seed.setdefault(int(record["seed"]), {})[record["family"]] = final(record)
    whole = [seed for seed in by_seed.values() if set(families) <= set(seed)]
    return Spread.of([float(np.mean([seed[name] for name in families])) for seed in whole])


def reached(records: Sequence[Record]) -> str:
    """Thousands of updates to `TARGET`, and of how many trainings, where not all reach it."""
    times = [updates_to(record) / 1000 for record in records]
    spread = Spread.of(times)
    if not records:
        return "–"
    if not spread.count:
        return f"never (0/{len(records)})"
    missed = f" ({spread.count}/{len(records)})" if spread.count < len(records) else ""
    return spread.text(2) + missed


def agreement(records: Sequence[Record], key: str) -> str:
    """One number of `coda.policy.agreement.Agreement`, in %."""
    found = [100.0 * r["agreement"][key] for r in records if r["agreement"] is not None]
    return Spread.of(found).text(0)


def table(records: Sequence[Record], *, lookahead: bool) -> str:
    """Markdown: a row a signal; OOD success by family, and what Table 4 reports besides."""
    families = [name for name in FAMILIES if any(r["family"] == name for r in records)]
    head = ["signal", *families, "average", "updates to 25 % (k)", "same choice", "its ceiling"]
    head += ["same, decisive", "value kept", "simulated steps per point"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for signal in SIGNALS:
        own = chosen(records, None, signal, lookahead)
        if not own:
            continue
        cells = [Spread.of([final(r) for r in own if r["family"] == f]).text() for f in families]
        cells += [average(own, families).text(), reached(own)]
        cells += [agreement(own, key) for key in ("same", "ceiling", "same_decisive", "value_kept")]
        cells.append(price(own))
        lines.append("| " + " | ".join([signal, *cells]) + " |")
    return "\n".join(lines)


def price(records: Sequence[Record]) -> str:
    """Simulated steps for every point of OOD success gained over the start; – where none is."""
    prices = []
    for record in records:
        gained = final(record) - 100.0 * float(record["curve"][0]["ood"])
        if gained > 0:
            prices.append(float(record["curve"][-1]["simulated_steps"]) / gained)
    return Spread.of(prices).text(0)


PAIR: tuple[tuple[str, str], ...] = (("text2potential", "tab:blue"), ("sparse", "tab:orange"))
"""Signals of the learning curves, and their colours."""


def draw_curves(records: Sequence[Record], path: Path) -> None:
    """Draw OOD success over updates, a panel a family: mean and standard error over seeds.

    The file's ending decides its format. Needs matplotlib (``pip install coda-robotics[bench]``).
    """
    from matplotlib.figure import Figure

    families = [name for name in FAMILIES if any(r["family"] == name for r in records)]
    figure = Figure(figsize=(3.4 * len(families), 3.2), layout="constrained")
    axes = figure.subplots(1, len(families), sharey=True, squeeze=False)[0]
    for axis, family in zip(axes, families, strict=True):
        for signal, colour in PAIR:
            for lookahead, style in ((True, "-"), (False, "--")):
                own = chosen(records, family, signal, lookahead)
                if not own:
                    continue
                updates, mean, error = mean_curve(own)
                name = f"{signal}{' + lookahead' if lookahead else ''}"
                axis.plot(updates, mean, style, color=colour, label=name)
                axis.fill_between(updates, mean - error, mean + error, color=colour, alpha=0.2)
        axis.set(title=family, xlabel="policy updates (k)", ylim=(0, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("OOD success (%)")
    axes[0].legend(loc="upper left", fontsize="small")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def mean_curve(records: Sequence[Record]) -> tuple[Array, Array, Array]:
    """Thousands of updates (R,), mean OOD success in % (R,) and its standard error (R,).

    The error is zero for one seed. Rounds that not every record has are left out.
    """
    length = min(len(record["curve"]) for record in records)
    updates = np.array([p["updates"] / 1000 for p in records[0]["curve"][:length]])
    success = np.array([[100 * p["ood"] for p in r["curve"][:length]] for r in records])
    spread = success.std(axis=0, ddof=1) / np.sqrt(len(records)) if len(records) > 1 else 0.0
    return updates, success.mean(axis=0), np.zeros(length) + spread


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--curves", type=Path, help="draw learning curves into this file")
    args = parser.parse_args()
    records = read(args.results)
    if not records:
        parser.exit(2, f"no signals-*.json in {args.results}; run coda.bench.signals first.\n")
    seeds = sorted({int(record["seed"]) for record in records})
    print(f"seeds {seeds} · commits {sorted({record['commit'] for record in records})}")
    for lookahead, name in ((False, "Without lookahead"), (True, "With lookahead")):
        if any(record["lookahead"] == lookahead for record in records):
            print(f"\n{name}\n\n{table(records, lookahead=lookahead)}")
    if args.curves is not None:
        draw_curves(records, args.curves)
        print(f"\nlearning curves: {args.curves}")


if __name__ == "__main__":
    main()
