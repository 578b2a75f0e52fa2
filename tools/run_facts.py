"""What a run's database tells about it, as compact JSON data: the source of every chat answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from coda.memory.records import Mode
from coda.memory.rows import (
    ControlTestRow,
    DecisionRow,
    DiagnosisRow,
    DirectiveRow,
    EpisodeRow,
    ModeVersionRow,
    NodeRunRow,
    ProgressRow,
    ProposalRow,
)
from coda.memory.rundb import RunDb
from coda.policy.backbones import policy_label
from coda.policy.config import PolicyConfig
from coda.policy.flow import FlowChunkPolicy
from coda.sim.errors import UnknownName

SHOWN_ROLLOUTS = 12
SHOWN_TESTS = 20
"""Most rows that one answer holds; counts cover all."""


def run_facts(db: RunDb, run_dir: Path) -> dict[str, Any]:
    """State, success by round and axis, modes by status, verdicts and costs of a run."""
    config = _config(run_dir)
    nodes = [node for node in db.rows(NodeRunRow) if node.round is not None]
    measured = db.rows(ProgressRow)
    modes = latest_modes(db)
    totals = db.call_totals()
    return {
        "run": run_dir.name,
        "family": config.get("family"),
        "state": _state(nodes, run_dir),
        "finished": (run_dir / "result.json").exists(),
        "round": max((n.round or 0 for n in nodes), default=0),
        "rounds": config.get("rounds"),
        "policy": _policy(config),
        "schedule": (config.get("switches") or {}).get("schedule"),
        "band": (config.get("measuring") or {}).get("band"),
        "success": [
            {"round": p.round, "split": p.split, "success": f"{p.successes}/{p.trials}"}
            for p in measured
            if p.label == "all"
        ],
        "axes": _axes(db),
        "ood_axes": _latest_labels(measured),
        "modes": dict(Counter(mode.status for mode in modes)),
        "verdicts": dict(Counter(test.verdict for test in db.rows(ControlTestRow))),
        "cost": {
            **{kind: round(amount, 1) for kind, amount in db.cost_totals().items()},
            "agent_calls": totals.calls,
            "tokens": totals.tokens_in + totals.tokens_out,
            "usd": round(totals.cost_usd, 4),
        },
    }


def _policy(config: Mapping[str, Any]) -> str:
    """What the policy is and sees."""
    backbone = (config.get("switches") or {}).get("backbone") or FlowChunkPolicy.backbone
    return policy_label(backbone, PolicyConfig.model_validate(config.get("policy") or {}))


def run_family(run_dir: Path) -> str:
    """The task family of a run."""
    return str(_config(run_dir).get("family") or "pick-place")


def latest_modes(db: RunDb) -> list[Mode]:
    """The present version of every mode, by id."""
    found: dict[str, Mode] = {}
    for row in db.rows(ModeVersionRow):
        found[row.mode_id] = row.mode
    return [found[key] for key in sorted(found)]


def mode_line(mode: Mode) -> dict[str, Any]:
    """A mode in short."""
    probed = mode.probe_history[-1] if mode.probe_history else None
    return {
        "mode_id": mode.mode_id,
        "title": mode.title,
        "axis": mode.axis,
        "stage": mode.stage,
        "mechanism": mode.mechanism,
        "status": mode.status,
        "success": None if probed is None else f"{probed[1]}/{probed[2]}",
        "reason": mode.reason,
        "pinned_by": mode.pinned_by,
    }


def modes_facts(db: RunDb, status: str | None = None) -> dict[str, Any]:
    """Modes in short, the least successful first."""

    def rate(mode: Mode) -> float:
        if not mode.probe_history or not mode.probe_history[-1][2]:
            return 0.0
        return mode.probe_history[-1][1] / mode.probe_history[-1][2]

    modes = [m for m in latest_modes(db) if status in (None, m.status)]
    return {"modes": [mode_line(mode) for mode in sorted(modes, key=rate)]}


def mode_facts(db: RunDb, mode_id: str) -> dict[str, Any]:
    """One mode with its history, diagnoses, tests and programs. Raises `UnknownName`."""
    versions = db.rows(ModeVersionRow, mode_id=mode_id)
    if not versions:
        raise UnknownName("mode", mode_id, [mode.mode_id for mode in latest_modes(db)])
    mode = versions[-1].mode
    diagnoses = [d for d in db.rows(DiagnosisRow) if d.diagnosis_id in mode.diagnosis_ids]
    tests = [t for t in db.rows(ControlTestRow) if t.diagnosis_id in mode.diagnosis_ids]
    return {
        **mode_line(mode),
        "factor_path": mode.factor_path,
        "explanation": mode.explanation,
        "history": [
            {"node": row.node_key, "status": row.mode.status, "reason": row.mode.reason}
            for i, row in enumerate(versions)
            if i == 0 or row.mode.status != versions[i - 1].mode.status
        ],
        "probes": [f"round {r}: {s}/{n}" for r, s, n in mode.probe_history],
        "diagnoses": [
            {
                "diagnosis_id": row.diagnosis_id,
                "explanation": row.diagnosis.explanation,
                "confidence": row.diagnosis.confidence,
                "evidence": list(row.diagnosis.evidence),
            }
            for row in diagnoses
        ],
        "tests": [_test(row) for row in tests],
        "omega": [f"{e.path}: {_sampler(e.sampler)}" for e in mode.omega.edits],
        "phi": None
        if mode.phi is None
        else [f"{stage.name} {stage.share:.2f}" for stage in mode.phi.stages],
    }


def rounds_facts(db: RunDb, round_: int | None = None) -> dict[str, Any]:
    """What was planned, built, diagnosed, tested and measured; one round or all."""
    played = sorted({n.round for n in db.rows(NodeRunRow) if n.round})
    if round_ is not None and round_ not in played:
        raise UnknownName("round", str(round_), [str(r) for r in played] or ["none yet"])
    chosen = played if round_ is None else [round_]
    return {"rounds": [_round(db, number) for number in chosen]}


def control_facts(db: RunDb, verdict: str | None = None) -> dict[str, Any]:
    """Control tests, the latest first."""
    rows = [t for t in db.rows(ControlTestRow) if verdict in (None, t.verdict)]
    return {"count": len(rows), "tests": [_test(row) for row in rows[::-1][:SHOWN_TESTS]]}


def rollouts_facts(
    db: RunDb,
    *,
    round_: int | None = None,
    axis: str | None = None,
    mode_id: str | None = None,
    failed: bool | None = None,
) -> dict[str, Any]:
    """Counts of rollouts by purpose, and the latest ones."""
    equals: dict[str, Any] = {}
    if axis is not None:
        equals["axis"] = axis
    if mode_id is not None:
        equals["mode_id"] = mode_id
    rows = db.rows(EpisodeRow, round_=round_, **equals)
    if failed is not None:
        rows = [r for r in rows if r.success is not None and r.success is not failed]
    counts: dict[str, list[int]] = {}
    for row in rows:
        if row.success is not None:
            pair = counts.setdefault(row.purpose, [0, 0])
            pair[0] += row.success
            pair[1] += 1
    return {
        "count": len(rows),
        "success_by_purpose": {name: f"{s}/{n}" for name, (s, n) in counts.items()},
        "latest": [
            {
                "episode": r.episode_id,
                "purpose": r.purpose,
                "success": r.success,
                "steps": r.steps,
                "progress": round(r.progress, 2),
                "axis": r.axis,
                "mode_id": r.mode_id,
            }
            for r in rows[::-1][:SHOWN_ROLLOUTS]
        ],
    }


def directives_facts(db: RunDb) -> dict[str, Any]:
    """Every directive with its state."""
    return {
        "directives": [
            {
                "directive_id": row.directive_id,
                "text": row.text,
                "action": dict(row.action),
                "status": row.status,
                "consumed_round": row.consumed_round,
            }
            for row in db.rows(DirectiveRow)
        ]
    }


def _round(db: RunDb, number: int) -> dict[str, Any]:
    decisions = db.rows(DecisionRow, round_=number)
    episodes = [e for e in db.rows(EpisodeRow, purpose="diagnose", round_=number)]
    solved = [e for e in episodes if e.success]
    return {
        "round": number,
        "decisions": [f"{d.by}: {d.text[:300]}" for d in decisions][:12],
        "programs": [
            f"{p.program.name if p.program else 'no program'}: {p.accepted} scenes accepted, "
            f"{p.rejected} refused"
            for p in db.rows(ProposalRow, round_=number)
        ][:16],
        "generated_scenes_solved": f"{len(solved)}/{len(episodes)}",
        "diagnoses": [
            f"{d.diagnosis_id}: {d.diagnosis.mechanism} at {d.diagnosis.failed_stage}, blamed "
            f"{d.diagnosis.axis}"
            for d in db.rows(DiagnosisRow, round_=number)
        ],
        "tests": [_test(t) for t in db.rows(ControlTestRow, round_=number)],
        "modes": [
            f"{row.mode_id} {row.mode.status}: {row.mode.reason or row.mode.title}"
            for row in db.rows(ModeVersionRow, round_=number)
        ][:16],
        "measured": [
            f"{p.split} {p.label}: {p.successes}/{p.trials}"
            for p in db.rows(ProgressRow, round_=number)
            if p.label == "all" or p.split == "probe"
        ],
    }


def _test(row: ControlTestRow) -> dict[str, Any]:
    test = row.test
    return {
        "test_id": row.test_id,
        "diagnosis_id": row.diagnosis_id,
        "verdict": row.verdict,
        "arms": {
            arm.name: f"{arm.successes}/{arm.trials} (progress {arm.progress_mean:.2f})"
            for arm in test.arms
        },
        "outcome": test.outcome,
        "effect": round(test.effect, 2),
        "interval": [round(bound, 2) for bound in test.interval],
        "reason": test.reason,
    }


def _axes(db: RunDb) -> dict[str, str]:
    """Success on the last round's generated scenes of each axis."""
    found: dict[str, list[EpisodeRow]] = {}
    for row in db.rows(EpisodeRow, purpose="diagnose"):
        if row.axis and row.success is not None:
            same = found.setdefault(row.axis, [])
            if same and same[-1].node_key != row.node_key:
                same.clear()
            same.append(row)
    return {
        axis: f"{sum(bool(r.success) for r in rows)}/{len(rows)}" for axis, rows in found.items()
    }


def _latest_labels(rows: list[ProgressRow]) -> dict[str, str]:
    """Held-out success of the last measurement by axis; for people, never for plans."""
    ood = [row for row in rows if row.split == "ood" and row.label != "all"]
    last = max((row.round for row in ood), default=0)
    return {r.label: f"{r.successes}/{r.trials}" for r in ood if r.round == last}


def _sampler(sampler: Any) -> str:
    data = sampler.model_dump(mode="json", exclude_none=True)
    kind = data.pop("kind")
    return f"{kind} {json.dumps(data, separators=(',', ':'))}"[:160]


def _state(nodes: list[NodeRunRow], run_dir: Path) -> str:
    """Where the run stands, in words."""
    if (run_dir / "result.json").exists():
        return "finished"
    if not nodes:
        return "not begun"
    last = nodes[-1]
    word = "in" if last.status == "running" else "after"
    return f"{word} {last.node_key} (going, or stopped there)"


def _config(run_dir: Path) -> dict[str, Any]:
    path = run_dir / "config.yaml"
    if not path.is_file():
        return {}
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    return data if isinstance(data, dict) else {}
