"""What a potential does along rollouts: shape over time, single stages, success against failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coda.policy.potential import PotentialValue
from coda.policy.program import TrainingProgram
from coda.sim.program import Issue


@dataclass(frozen=True, kw_only=True)
class CheckLimits:
    """Thresholds of the checks; Phi is in [0, 1].

    Measured on planner successes in the four families' In and OOD scenes, the base potentials rise
    by at most 0.17 in a control step in three quarters of them and drop by at most 0.02, begin at
    0.30 or less of what is to be earned, and end at 1.00 in all. One success in ten drops by 0.5,
    because the planner grasps twice, and of four successes two may do so: half is forgiven there.
    """

    jump: float = 0.4
    """Largest rise between two control steps, in half of the successes, after drops of at
    most `dip` are filled up. Grasping a drawer that is half open earns 0.33 at once."""
    fall: float = 0.2
    """Largest drop below the highest Phi so far (likewise)."""
    dip: int = 4
    """Control steps that do not count: the time of a fall by 0.2 m. A drop of Phi may last so
    long, a stage's tau fall, and its entry begin to hold after the next stage's."""
    rise: float = 0.5
    """Smallest rise from start to success, in three quarters of the successes."""
    finish: float = 0.8
    """Smallest Phi at success (likewise)."""
    flood_start: float = 0.4
    """Highest Phi at reset (median)."""
    flood_quarter: float = 0.7
    """Highest Phi after a quarter of the way to success (median)."""
    flood_stage: float = 0.7
    """Largest share of one stage among several: with more, the others hardly count."""
    spread: float = 0.05
    """Smallest range of Phi over successes, and of tau within a stage."""
    reached: float = 0.25
    """Smallest share of the successes in which a stage's entry holds at some time."""
    separation: float = 0.8
    """Smallest probability that a success ends higher than a failure."""
    tie: float = 0.02
    """Difference of two final values of Phi that says nothing."""
    brief: float = 8.0
    """Fewest control steps per rollout that a stage must last to be judged: a stage that is
    passed in less than a chunk gives no guidance, and needs none."""


@dataclass(frozen=True)
class Trace:
    """Phi along one rollout."""

    value: PotentialValue
    entered: npt.NDArray[np.bool_]
    """Entry truth of every stage, (T, K)."""
    tau: npt.NDArray[np.float64]
    """Progress of every stage, also of those that the state is not in, (T, K)."""
    applies: npt.NDArray[np.bool_]
    """Whether the scene asks for each stage: has what it is about, and is not past it, (K,)."""
    floor: float
    """Phi that the scene has before anything is done: of the stages that it does not ask for."""

    @property
    def earned(self) -> npt.NDArray[np.float64]:
        """Share of what there is to be earned in this scene, (T,)."""
        return np.asarray((self.value.phi - self.floor) / (1.0 - self.floor))

    def measured(self, k: int) -> npt.NDArray[np.float64]:
        """Stage k's tau while it lasts and in the step that leaves it for a later one, (n,)."""
        here = np.equal(self.value.stage, k)
        left = np.zeros_like(here)
        left[1:] = here[:-1] & (self.value.stage[1:] > k)
        return np.asarray(self.tau[here | left, k])


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
    earned = [trace.earned for trace in traces]
    start = float(np.median([p[0] for p in earned]))
    quarter = float(np.median([p[len(p) // 4] for p in earned]))
    rise = _most([p[-1] - p[0] for p in earned])
    end = _most([p[-1] for p in phis])
    lasting = [without_dips(p, limits.dip + 1) for p in phis]
    jump = _half([np.diff(p, prepend=p[0]).max() for p in lasting])
    fall = _half([(np.maximum.accumulate(p) - p).max() for p in lasting])
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
        ("no-rise", rise < limits.rise, f"Phi changes by {rise:+.2f} to success",
         f">= {limits.rise}", "let progress lead from the start to the goal"),
        ("unfinished", end < limits.finish, f"Phi = {end:.2f} at success",
         f">= {limits.finish}", "let the last stage's progress end at the success test"),
    )  # fmt: skip
    return [
        issue(code, "stages", value, limit, remedy)
        for code, broken, value, limit, remedy in rules
        if broken
    ]


def without_dips(phi: npt.NDArray[np.float64], steps: int) -> npt.NDArray[np.float64]:
    """Phi (T,) with drops filled up that last fewer than `steps` control steps.

    An object that is dropped into a bin is for a moment neither held nor there, and chunks hardly
    ever end just then. What rises stays as it is, and so does a drop at the end.
    """
    padded = np.concatenate((np.full(steps, phi[0]), phi, np.full(steps, phi[-1])))
    window = np.lib.stride_tricks.sliding_window_view
    highest = window(padded, steps).max(axis=1)
    return np.asarray(window(highest, steps).min(axis=1)[1 : len(phi) + 1])


def _half(values: Sequence[float]) -> float:
    """What half of the values do not exceed."""
    return float(np.quantile(values, 0.5, method="lower"))


def _most(values: Sequence[float]) -> float:
    """What three quarters of the values reach; of three, the middle one."""
    return float(np.quantile(values, 0.25, method="higher"))


def stage_findings(
    program: TrainingProgram, traces: list[Trace], limits: CheckLimits
) -> list[Issue]:
    """Findings about single stages along successes."""
    issues = _heaviest(program, limits)
    for k in range(len(program.stages)):
        asked = [trace for trace in traces if trace.applies[k]]
        if asked:  # else it is about something that none of these scenes has
            issues += _stage(k, program, asked, limits)
    return issues + _order(program, traces, limits)


def _heaviest(program: TrainingProgram, limits: CheckLimits) -> list[Issue]:
    """One stage of several that is nearly all of the potential."""
    shares = [stage.share for stage in program.stages]
    k = int(np.argmax(shares))
    if len(shares) == 1 or shares[k] <= limits.flood_stage:
        return []
    return [
        issue(
            "floods", f"stages.{k}.share", f"{program.stages[k].name} is worth {shares[k]:.2f}",
            f"<= {limits.flood_stage}", "give the other stages more of the share",
        )
    ]  # fmt: skip


def _passed(k: int, program: TrainingProgram, traces: list[Trace]) -> bool:
    """Whether only stages overrule k that ask for what it asks for and more.

    Then the successes were faster than the stage: what falls into a bin is released already.
    """
    over = {int(s) for t in traces for s in np.unique(t.value.stage[t.entered[:, k]])}
    own = set(program.stages[k].entry)
    return k > 0 and all(own < set(program.stages[s].entry) for s in over)


def _stage(
    k: int, program: TrainingProgram, traces: list[Trace], limits: CheckLimits
) -> list[Issue]:
    """Findings about stage k along the successes whose scenes ask for it."""
    spec = program.stages[k]
    path, enough = f"stages.{k}", limits.brief * len(traces)
    reached = sum(bool(trace.entered[:, k].any()) for trace in traces)
    holds = sum(int(trace.entered[:, k].sum()) for trace in traces)
    lasts = sum(int((trace.value.stage == k).sum()) for trace in traces)
    tau = np.concatenate([trace.measured(k) for trace in traces])
    if k > 0 and (reached == 0 or reached < limits.reached * len(traces)):
        terms = " and ".join(str(term) for term in spec.entry)
        return [
            issue(
                "unreachable-stage", f"{path}.entry",
                f"{spec.name}: {terms} holds in {reached} of {len(traces)} successes",
                "holds in successes", "loosen the limits or drop the stage",
            )
        ]  # fmt: skip
    if not lasts and holds >= enough and not _passed(k, program, traces):
        return [
            issue(
                "shadowed-stage", f"{path}.entry", f"{spec.name} is always overruled",
                "present in some success", "a later stage's entry must ask for more",
            )
        ]  # fmt: skip
    done = k == len(program.stages) - 1 and tau.size and tau.min() >= 1.0 - limits.spread
    if lasts >= enough and np.ptp(tau) < limits.spread and not done:
        return [
            issue(
                "dead-progress", f"{path}.progress",
                f"{spec.name}: tau stays at {tau.mean():.2f}", "varies within the stage",
                "move start and end into the range that the margin really covers",
            )
        ]  # fmt: skip
    return _falling(k, spec.name, traces, limits) if lasts > limits.dip * len(traces) else []


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


def _order(program: TrainingProgram, traces: list[Trace], limits: CheckLimits) -> list[Issue]:
    """Neighbouring stages whose entries begin to hold in the other order in most successes."""
    issues = []
    for k in range(1, len(program.stages) - 1):
        first = [
            (np.argmax(trace.entered[:, k]), np.argmax(trace.entered[:, k + 1]))
            for trace in traces
            if trace.applies[k] and trace.entered[:, k : k + 2].any(axis=0).all()
        ]
        late = sum(int(own) - int(following) > limits.dip for own, following in first)
        if 2 * late > len(first):
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
    above = float(np.mean(np.where(np.abs(pairs) <= limits.tie, 0.5, pairs > 0)))
    if np.median(lost) >= np.median(won) - limits.tie:
        issues.append(
            issue(
                "rewards-failure",
                "stages",
                f"failures end at Phi = {np.median(lost):.2f}",
                f"below the successes' {np.median(won):.2f}",
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
