"""`RunResult`: what a run came to, for people, for library users and for `result.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.table import Table

from coda.graphs.runfolder import RunFolder


@dataclass(frozen=True, kw_only=True)
class SuccessRow:
    """Success of one round's policy on one evaluation set."""

    round: int
    """0 is the fine-tuned seed policy."""
    split: str
    """``in`` or ``ood``."""
    label: str
    """``all``, or one axis."""
    successes: int
    trials: int
    low: float
    high: float
    """95 % Wilson interval."""

    @property
    def rate(self) -> float:
        """Share of successes in [0, 1]."""
        return self.successes / self.trials if self.trials else 0.0


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of a finished run."""

    name: str
    run_dir: Path
    stop: str
    """Why it ended."""
    rounds: int
    success: tuple[SuccessRow, ...]
    modes: Mapping[str, int]
    """Modes by status."""
    verdicts: Mapping[str, int]
    """Diagnoses by verdict."""
    scenes_proposed: int
    scenes_accepted: int
    tokens: int
    cost_usd: float
    agent_calls: int
    models: tuple[str, ...]
    """Labels of the models that answered, e.g. ``offline (rules)``."""
    policy: str = ""
    """What the policy is and sees, e.g. ``flow, privileged state``."""

    @property
    def report(self) -> Path:
        """The self-contained report."""
        return self.run_dir / "report.html"

    def overall(self, split: str) -> tuple[SuccessRow, ...]:
        """Rows of one split over all labels, by round."""
        return tuple(r for r in self.success if r.split == split and r.label == "all")

    def to_json(self) -> dict[str, Any]:
        """Plain data without the folder's place: equal runs give equal results."""
        data = asdict(self)
        del data["run_dir"], data["name"]
        return data

    @classmethod
    def from_json(cls, folder: RunFolder, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        rows = tuple(SuccessRow(**row) for row in data["success"])
        plain = {**data, "success": rows, "models": tuple(data["models"])}
        return cls(**plain, run_dir=folder.path, name=folder.path.name)


def print_summary(console: Console, result: RunResult) -> None:
    """The table at the end of a run."""
    table = Table(title=f"{result.name}: {result.stop}", title_justify="left", box=None)
    table.add_column("policy")
    for split in ("In", "OOD"):
        table.add_column(f"{split} success", justify="right")
        table.add_column("95 %", justify="right")
    rounds = sorted({row.round for row in result.success})
    for round_ in rounds:
        cells: list[str] = []
        for split in ("in", "ood"):
            row = next((r for r in result.overall(split) if r.round == round_), None)
            cells += ["", ""] if row is None else [_share(row), f"[{row.low:.0%}, {row.high:.0%}]"]
        table.add_row("SFT" if round_ == 0 else f"round {round_}", *cells)
    console.print(table)
    console.print(f"policy: {result.policy}", highlight=False)
    modes = ", ".join(f"{n} {status}" for status, n in sorted(result.modes.items())) or "none"
    verdicts = ", ".join(f"{n} {v}" for v, n in sorted(result.verdicts.items())) or "none"
    console.print(f"modes: {modes}", highlight=False)
    console.print(f"diagnoses: {verdicts}", highlight=False)
    console.print(
        f"scenes: {result.scenes_accepted} accepted of {result.scenes_proposed} proposed; "
        f"agent calls: {result.agent_calls} by {', '.join(result.models)}, {result.tokens} tokens, "
        f"{result.cost_usd:.2f} US dollar",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"report: {result.report}", highlight=False, soft_wrap=True)


def _share(row: SuccessRow) -> str:
    return f"{row.rate:.0%} ({row.successes}/{row.trials})"
