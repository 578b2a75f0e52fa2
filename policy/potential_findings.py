"""What a potential does along rollouts: shape over time, single stages, success against failure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coda.policy.potential import PotentialValue
from coda.policy.program import TrainingProgram
from coda.sim.program import Issue


@dataclass(frozen=True, kw_only=True)
class CheckLimits:
    """Thresholds of the checks; Phi is in [0, 1]."""

    jump: float = 0.3
    """Largest rise between two control steps (median over rollouts of each one's largest)."""
    fall: float = 0.2
    """Largest drop below the highest Phi so far (likewise)."""
    rise: float = 0.5
    """Smallest rise from start to success (median)."""
    finish: float = 0.8
    """Smallest Phi at success (median)."""
    flood_start: float = 0.4
    """Highest Phi at reset (median)."""
    flood_quarter: float = 0.7
    """Highest Phi after a quarter of the way to success (median)."""
    spread: float = 0.05
    """Smallest range of Phi over successes, and of tau within a stage."""
    separation: float = 0.8
    """Smallest probability that a success ends higher than a failure."""
    brief: float = 8.0
    """Fewest control steps per rollout that a stage must last to be judged: a stage that is
    passed in less than a chunk gives no guidance, and needs none."""


@dataclass(frozen=True)
class Trace:
    """Phi along one rollout."""

    value: PotentialValue
    entered: npt.NDArray[np.bool_]
    """Entry truth of every stage, (T, K)."""
    applies: npt.NDArray[np.bool_]
    """Whether the scene has the roles that each stage's progress is about, (K,)."""


def issue(code: str, path: str, value: str, limit: str, remedy: str) -> Issue:
    """An issue as the scene-builder's gate writes them."""
    return Issue(code=code, path=path, value=value, limit=limit, remedy=remedy)


def shape_findings(traces: list[Trace], limits: CheckLimits) -> list[Issue]:
    """Findings about Phi as a function of time along successes."""
    phis = [trace.value.phi for trace in traces]
    everything = np.concatenate(phis)
    spread = float(everything.max() - everything.min())
    if spread < limits.spread:
        return [
            issue(
                "constant",
                "stages",
                f"Phi varies by {spread:.3f}",
                f">= {limits.spread}",
                "choose progress terms and ranges that change while the task is done",
            )
        ]
    start = float(np.median([p[0] for p in phis]))
    quarter = float(np.median([p[len(p) // 4] for p in phis]))
    end = float(np.median([p[-1] for p in phis]))
    jump = float(np.median([np.diff(p, prepend=p[0]).max() for p in phis]))
    fall = float(np.median([(np.maximum.accumulate(p) - p).max() for p in phis]))
    rules = (
        ("floods", start > limits.flood_start, f"Phi = {start:.2f} at reset",
         f"<= {limits.flood_start}", "make the first stages narrower or smaller in share"),
        ("floods", start <= limits.flood_start and quarter > limits.flood_quarter,
         f"Phi = {quarter:.2f} after a quarter of a success", f"<= {limits.flood_quarter}",
         "give the late stages more of the share"),
        ("jump", jump > limits.jump, f"Phi rises by {jump:.2f} in one control step",
         f"<= {limits.jump}", "start the next stage's progress where its entry begins to hold"),
        ("falls", fall > limits.fall, f"Phi falls by {fall:.2f} during a success",
         f"<= {limits.fall}", "loosen the entries that stop holding, or mend the stage's order"),
        ("no-rise", end - start < limits.rise, f"Phi rises by {end - start:.2f} to success",
         f">= {limits.rise}", "let progress lead from the start to the goal"),
        ("unfinished", end < limits.finish, f"Phi = {end:.2f} at success",
         f">= {limits.finish}", "let the last stage's progress end at the success test"),
    )  # fmt: skip
    return [
        issue(code, "stages", value, limit, remedy)
        for code, broken, value, limit, remedy in rules
        if broken
    ]


def stage_findings(
    program: TrainingProgram, traces: list[Trace], limits: CheckLimits
) -> list[Issue]:
    """Findings about single stages along successes."""
    issues = []
    stage = np.concatenate([trace.value.stage for trace in traces])
    tau = np.concatenate([trace.value.tau for trace in traces])
    for k, spec in enumerate(program.stages):
        if not any(trace.applies[k] for trace in traces):
            continue  # about something that none of these scenes has
        path = f"stages.{k}"
        holds = sum(int(trace.entered[:, k].sum()) for trace in traces)
        here: npt.NDArray[np.bool_] = np.equal(stage, k)
        if not holds:
            terms = " and ".join(str(term) for term in spec.entry)
            issues.append(
                issue(
                    "unreachable-stage",
                    f"{path}.entry",
                    f"{spec.name}: {terms} never holds",
                    "holds in every success",
                    "loosen the limits or drop the stage",
                )
            )
        elif not here.any() and holds >= limits.brief * len(traces):
            issues.append(
                issue(
                    "shadowed-stage",
                    f"{path}.entry",
                    f"{spec.name} is always overruled",
                    "present in some success",
                    "a later stage's entry must ask for more",
                )
            )
        elif here.sum() >= limits.brief * len(traces) and np.ptp(tau[here]) < limits.spread:
            issues.append(
                issue(
                    "dead-progress",
                    f"{path}.progress",
                    f"{spec.name}: tau stays at {tau[here].mean():.2f}",
                    "varies within the stage",
                    "move start and end into the range that the margin really covers",
                )
            )
        else:
            issues += _falling(k, spec.name, traces, limits)
    return issues + _order(program, traces)


def _falling(k: int, name: str, traces: list[Trace], limits: CheckLimits) -> list[Issue]:
    """A stage whose tau, from entering to leaving it, falls in most successes."""
    change = []
    for trace in traces:
        inside = trace.value.tau[np.equal(trace.value.stage, k)]
        if inside.size >= 2:
            change.append(float(inside[-1] - inside[0]))
    if not change or float(np.median(change)) > -2 * limits.spread:
        return []
    return [
        issue(
            "falling-progress", f"stages.{k}.progress",
            f"{name}: tau changes by {np.median(change):+.2f} during the stage", "rises",
            "exchange start and end, or name the margin that grows",
        )
    ]  # fmt: skip


def _order(program: TrainingProgram, traces: list[Trace]) -> list[Issue]:
    """Neighbouring stages that most successes are first in, in the other order."""
    issues = []
    for k in range(len(program.stages) - 1):
        early = late = 0
        for trace in traces:
            first = np.flatnonzero(trace.value.stage == k)
            after = np.flatnonzero(trace.value.stage > k)
            if first.size and after.size:
                early += bool(first[0] < after[0])
                late += bool(first[0] > after[0])
        if late > early:
            issues.append(
                issue(
                    "stage-order",
                    f"stages.{k}",
                    f"{program.stages[k].name} comes after a later stage in {late} successes",
                    "stages in the order they happen",
                    "move the stage, or mend its entry",
                )
            )
    return issues


def failure_findings(
    program: TrainingProgram,
    good: list[Trace],
    bad: list[Trace],
    failed_stage: str | None,
    limits: CheckLimits,
) -> list[Issue]:
    """Findings from comparing successes with failures."""
    issues = []
    won = np.array([trace.value.phi[-1] for trace in good])
    lost = np.array([trace.value.phi[-1] for trace in bad])
    pairs = won[:, None] - lost[None, :]
    above = float(np.mean(np.where(np.abs(pairs) <= 0.02, 0.5, pairs > 0)))
    if np.median(lost) >= 0.95 * np.median(won):
        issues.append(
            issue(
                "rewards-failure",
                "stages",
                f"failures end at Phi = {np.median(lost):.2f}",
                f"well below the successes' {np.median(won):.2f}",
                "give the share to what the failures lack",
            )
        )
    elif above < limits.separation:
        issues.append(
            issue(
                "no-separation",
                "stages",
                f"a success ends higher with probability {above:.2f}",
                f">= {limits.separation}",
                "add a stage for what only successes do",
            )
        )
    names = [stage.name for stage in program.stages]
    if failed_stage in names:
        where = np.array([trace.value.stage[np.argmax(trace.value.phi)] for trace in bad])
        stuck = int(np.bincount(where, minlength=len(names)).argmax())
        if stuck != names.index(failed_stage):
            issues.append(
                issue(
                    "plateau-elsewhere",
                    f"stages.{stuck}",
                    f"failures stop in stage {names[stuck]}",
                    f"stage {failed_stage}",
                    "mend the stage's entry, or the diagnosis",
                )
            )
    return issues
