"""Difficulty modes in the report: evidence, programs, history; and what was refuted."""

from __future__ import annotations

from collections.abc import Sequence

from coda.graphs.charts import Rate, arm_bars, sparkline
from coda.graphs.facts import RunFacts
from coda.graphs.markup import Content, Html, chip, details, join, section, table, tag
from coda.graphs.program_text import edit_text, stage_text, tools_text
from coda.memory.progress import wilson
from coda.memory.records import ControlTest, Diagnosis, Mode
from coda.memory.rows import ControlTestRow, DiagnosisRow

TONES = {
    "confirmed": "good",
    "refuted": "bad",
    "undecided": "mid",
    "mastered": "good",
    "retained": "good",
    "training": "mid",
    "validated": "mid",
    "parked": "",
    "candidate": "",
}


def rate(label: str, successes: int, trials: int) -> Rate:
    """A rate with its Wilson interval."""
    low, high = wilson(successes, trials)
    return Rate(label=label, successes=successes, trials=trials, low=low, high=high)


def modes_section(facts: RunFacts) -> Html:
    """Every mode, then every diagnosis that made none."""
    cards = [mode_card(facts, mode) for mode in facts.modes.values()]
    used = {name for mode in facts.modes.values() for name in mode.diagnosis_ids}
    rest = [row for row in facts.diagnoses if row.diagnosis_id not in used]
    parts: list[Content] = [
        tag(
            "p",
            "A mode is a reusable reason why the policy fails, with the programs that recreate "
            "and train it. A confirmed one has survived a control test in which only the blamed "
            "factor was reverted. Lines show success on the mode's own fixed probe scenes.",
            klass="dim",
        ),
        join(cards) if cards else tag("p", "No modes yet.", klass="dim"),
    ]
    if rest:
        parts.append(tag("h3", "Diagnoses that made no mode: refuted, undecided or untested"))
        parts += [diagnosis_card(facts, row) for row in rest]
    return section("Difficulty modes", *parts, anchor="modes")


def mode_card(facts: RunFacts, mode: Mode) -> Html:
    """One mode with all its evidence."""
    probes = [rate(f"round {r}", s, n) for r, s, n in mode.probe_history]
    head = tag(
        "h3",
        f"{mode.mode_id} {mode.title} ",
        chip(mode.status, TONES.get(mode.status, "")),
    )
    pinned = f" (pinned by {mode.pinned_by})" if mode.pinned_by else ""
    about = tag(
        "dl",
        *_pair("Fails at", f"stage {mode.stage}: {mode.mechanism}"),
        *_pair("Factor", join([f"{mode.axis} (", tag("code", mode.factor_path), ")"])),
        *_pair("Why this status", f"{mode.reason or 'not stated'}{pinned}"),
        *_pair("Probe success", Html(sparkline(probes))),
        *_pair("Last probe", probes[-1].text if probes else "not probed"),
        *(_pair("Comes from", " → ".join(mode.lineage)) if mode.lineage else ()),
    )
    evidence = [
        _evidence(facts, facts.diagnosis[name], said=mode.explanation)
        for name in mode.diagnosis_ids
        if name in facts.diagnosis
    ]
    return tag(
        "div",
        head,
        tag("p", mode.explanation),
        about,
        *evidence,
        _programs(mode),
        _history(facts, mode.mode_id),
        klass="card",
    )


def _pair(name: str, value: Content) -> tuple[Html, Html]:
    return tag("dt", name), tag("dd", value)


def _evidence(facts: RunFacts, row: DiagnosisRow, *, said: str) -> Html:
    """A diagnosis and its test; its words are left out where the mode's `said` them already."""
    test = facts.test_of(row.diagnosis_id)
    verdict = chip(test.verdict, TONES[test.verdict]) if test else chip("not tested", "")
    return details(
        join([f"Evidence: diagnosis {row.diagnosis_id} and its control test ", verdict]),
        _claim(facts, row.diagnosis, with_words=row.diagnosis.explanation != said),
        test_block(test) if test else None,
        is_open=True,
    )


def _claim(facts: RunFacts, diagnosis: Diagnosis, *, with_words: bool = True) -> Html:
    cures = "; ".join(edit_text(edit) for edit in diagnosis.cure) or "none stated"
    return join(
        [
            tag("blockquote", diagnosis.explanation) if with_words else None,
            tag(
                "dl",
                *_pair("Claim", f"{diagnosis.mechanism} at stage {diagnosis.failed_stage}"),
                *_pair("Blamed", f"{diagnosis.axis} ({diagnosis.factor_path})"),
                *_pair("Cure", cures),
                *_pair(
                    "Expected",
                    f"success +{diagnosis.expected_effect:.2f}, {diagnosis.confidence} confidence",
                ),
                *_pair("Cites", _citations(facts, diagnosis.evidence)),
            ),
        ]
    )


def _citations(facts: RunFacts, evidence: Sequence[str]) -> Html:
    """Each cited reference with the outcome of its rollout where it names one."""
    cited = []
    for ref in evidence:
        owner = next((row for name, row in facts.episode.items() if ref.startswith(name)), None)
        outcome = "" if owner is None else " (success)" if owner.success else " (failure)"
        cited.append(tag("span", tag("code", ref), outcome))
    return join(cited, ", ") if cited else Html("nothing")


def test_block(row: ControlTestRow) -> Html:
    """Arms, effect, e-values and verdict of a control test."""
    test = row.test
    arms = [(arm.name, rate(arm.name, arm.successes, arm.trials)) for arm in test.arms]
    low, high = test.interval
    progress = ", ".join(f"{arm.name} {arm.progress_mean:.2f}" for arm in test.arms)
    facts = tag(
        "dl",
        *_pair("Verdict", join([chip(row.verdict, TONES[row.verdict]), f" {test.reason}"])),
        *_pair("Compared", _compared(test)),
        *_pair("Effect", f"{test.effect:+.2f}, 95 % confidence sequence {low:+.2f} to {high:+.2f}"),
        *_pair(
            "e-values",
            f"{test.e_value:.3g} for an effect, {test.e_value_refute:.3g} against one of interest; "
            f"p = {test.p_value:.3g}",
        ),
        *_pair("Mean progress", progress),
    )
    bars = tag("div", Html(arm_bars(arms)), tag("p", "Successes of each arm.", klass="small dim"))
    return tag("div", facts, bars, klass="two")


def _compared(test: ControlTest) -> str:
    what = "success" if test.outcome == "success" else "staged progress (success was near zero)"
    return f"{what} of paired rollouts: factor present, reverted, and a placebo edit"


def _programs(mode: Mode) -> Html:
    """The generation and the training program, as they are now."""
    omega = [tag("li", tag("code", edit_text(edit))) for edit in mode.omega.edits]
    rules = [
        tag("li", f"{rule.roles[0]} and {rule.roles[1]} at least {rule.distance_m:g} m apart")
        for rule in mode.omega.constraints
    ]
    parts: list[Content] = [
        tag("h3", f"Generation program ω, version {mode.omega_version}: {mode.omega.name}"),
        tag("ul", *omega, *rules) if omega or rules else tag("p", "The seed scene.", klass="dim"),
    ]
    if mode.phi is None:
        parts.append(tag("p", "No training program φ yet.", klass="dim"))
    else:
        parts += [
            tag("h3", f"Training program φ, version {mode.phi_version}: {mode.phi.name}"),
            tag("ol", *(tag("li", stage_text(s)) for s in mode.phi.stages), klass="stages"),
            tag("p", f"Learning tools: {tools_text(mode.phi.tools)}.", klass="small dim"),
        ]
        if mode.phi.source_text:
            parts.append(tag("blockquote", f"Compiled from: {mode.phi.source_text}", klass="small"))
    return details("Programs ω and φ", *parts)


def _history(facts: RunFacts, mode_id: str) -> Html:
    rows = [row for row in facts.mode_versions if row.mode_id == mode_id]
    return details(
        f"History ({len(rows)} versions)",
        table(
            ("version", "written by", "status", "ω", "φ", "why"),
            (
                (
                    row.version,
                    row.node_key,
                    chip(row.mode.status, TONES.get(row.mode.status, "")),
                    row.mode.omega_version,
                    row.mode.phi_version,
                    row.mode.reason,
                )
                for row in rows
            ),
        ),
    )


def diagnosis_card(facts: RunFacts, row: DiagnosisRow) -> Html:
    """A diagnosis that made no mode."""
    test = facts.test_of(row.diagnosis_id)
    verdict = chip(test.verdict, TONES[test.verdict]) if test else chip("not tested", "")
    claim = f"{row.diagnosis_id}: {row.diagnosis.axis} blamed for {row.diagnosis.mechanism} "
    body = (_claim(facts, row.diagnosis), test_block(test) if test else None)
    return tag("div", details(join([claim, verdict]), *body), klass="card")
