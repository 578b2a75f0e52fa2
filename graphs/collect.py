"""Read the result of a run from its database."""

from __future__ import annotations

from collections import Counter

from coda.graphs.deps import ROLES, Deps
from coda.graphs.result import RunResult, SuccessRow
from coda.graphs.runfolder import RunFolder
from coda.memory.progress import wilson
from coda.memory.rows import ControlTestRow, ProgressRow, ProposalRow
from coda.policy.backbones import policy_label


def collect(folder: RunFolder, deps: Deps, stop: str) -> RunResult:
    """Read the result of a run from its database; `stop` says why it ended."""
    db = deps.db
    measured = [row for row in db.rows(ProgressRow) if row.split in ("in", "ood")]
    proposals = db.rows(ProposalRow)
    calls = db.call_totals()
    accepted = sum(row.accepted for row in proposals)
    return RunResult(
        name=folder.path.name,
        run_dir=folder.path,
        stop=stop,
        rounds=max((row.round for row in measured), default=0),
        success=tuple(_success_row(row) for row in measured),
        modes=_tally([mode.status for mode in deps.modes.all()]),
        verdicts=_tally([row.verdict for row in db.rows(ControlTestRow)]),
        scenes_proposed=accepted + sum(row.rejected for row in proposals),
        scenes_accepted=accepted,
        tokens=calls.tokens_in + calls.tokens_out,
        cost_usd=calls.cost_usd,
        agent_calls=calls.calls,
        models=tuple(dict.fromkeys(deps.agents.info_of(role).label for role in ROLES)),
        policy=policy_label(deps.config.switches.backbone, deps.config.policy),
    )


def _success_row(row: ProgressRow) -> SuccessRow:
    low, high = wilson(row.successes, row.trials)
    return SuccessRow(
        round=row.round,
        split=row.split,
        label=row.label,
        successes=row.successes,
        trials=row.trials,
        low=low,
        high=high,
    )


def _tally(values: list[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
