"""Node *compile*: a mode's generation program and its training program, both checked on data."""

from __future__ import annotations

from dataclasses import dataclass

from coda.agents import curriculum
from coda.agents.caller import AgentCaller
from coda.agents.omega import compile_generation
from coda.agents.record import NoAnswer
from coda.graphs.nodes_build import draw_scenes
from coda.graphs.nodes_diagnose import FailureGroup, failure_groups
from coda.graphs.state import RoundState, RoundUpdate
from coda.graphs.work import Work
from coda.memory.records import Diagnosis, Mode
from coda.memory.rows import DiagnosisRow
from coda.policy.potential_check import check_potential
from coda.policy.program import TrainingProgram
from coda.sim.engine import CHUNK
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import Issue
from coda.sim.rollout import run_scenes

CHECK_SCENES = 4
"""Planner rollouts along which a new potential is checked, and scenes that omega must yield."""
REPAIRS = 3
"""Times that a refused potential goes back to the curriculum."""


def compile_programs(work: Work, state: RoundState) -> RoundUpdate:
    """Compile omega and phi of every new or changed mode, and refine phi where it did not help."""
    refine = state.get("refine", [])
    wanted = list(dict.fromkeys([*state["changed_modes"], *refine]))
    groups = tuple(failure_groups(work)) if wanted else ()
    caller = work.caller()
    for i, mode_id in enumerate(wanted):
        work.step(i, len(wanted), "modes")
        job = _Compile(work=work, caller=caller, mode_id=mode_id, groups=groups)
        if mode_id in state["changed_modes"]:
            job.omega()
        job.phi(refining=mode_id in refine and mode_id not in state["changed_modes"])
    return {"refine": []}


@dataclass(frozen=True, kw_only=True)
class _Compile:
    """Compilation of one mode."""

    work: Work
    caller: AgentCaller
    mode_id: str
    groups: tuple[FailureGroup, ...]
    """Rollouts of the round, by program."""

    @property
    def mode(self) -> Mode:
        """Present version of the mode."""
        return self.work.deps.modes.require(self.mode_id)

    @property
    def diagnosis(self) -> Diagnosis:
        """The latest diagnosis that the mode rests on."""
        row = self.work.deps.db.get(DiagnosisRow, self.mode.diagnosis_ids[-1])
        assert row is not None
        return row.diagnosis

    def failures(self) -> list[FailureGroup]:
        """Groups of the round on the mode's own axis."""
        axis = self.mode.axis
        return [group for group in self.groups if group.built.slot["axis"] == axis]

    def omega(self) -> None:
        """Narrow omega to what recreates the difficulty; keep the found program if that fails."""
        mode = self.mode
        scenes = tuple(
            trial.episode.scene
            for group in self.failures()
            for trial in group.trials
            if trial.success is False
        )
        program = compile_generation(
            mode, mode.omega, self.diagnosis, failures=scenes, splits=self.work.deps.splits
        )
        draw = draw_scenes(self.work, program, CHECK_SCENES, f"{mode.mode_id}.omega")
        if 2 * len(draw.scenes) < CHECK_SCENES:
            first = draw.issues[0].line() if draw.issues else "too few scenes"
            self.work.decide(
                "fallback",
                f"{mode.mode_id}: keeps {mode.omega.name!r} as omega, {program.name!r} fails the "
                f"gate ({first})",
                "rule:fallback",
                mode=mode.mode_id,
            )
            return
        self.work.deps.modes.put(self.work.key, mode.model_copy(update={"omega": program}))
        self.work.tell(f"{mode.mode_id}: omega {program.name}")

    def phi(self, *, refining: bool) -> None:
        """Ask for a potential until its checks hold; else keep the old one, or the family's own."""
        mode = self.mode
        base = self.work.deps.base.program
        signal = self.work.deps.config.switches.signal
        if signal in ("text2potential", "no-refinement"):
            program, words = self._ask(mode.phi or base, refining=refining)
        else:
            program, words = base, f"the family's potential (signal {signal})"
        by = "curriculum" if program not in (base, mode.phi) else "rule:fallback"
        version = mode.phi_version + (program != mode.phi)
        update = {"phi": program, "phi_version": version}
        self.work.deps.modes.put(self.work.key, mode.model_copy(update=update))
        text = f"{mode.mode_id}: phi v{version} is {words}"
        self.work.decide("phi", text, by, mode=mode.mode_id)

    def _ask(self, held: TrainingProgram, *, refining: bool) -> tuple[TrainingProgram, str]:
        """A checked potential and how it came about; `held` where there is none."""
        mode, diagnosis = self.mode, self.diagnosis
        base = self.work.deps.base.program
        good, bad = self._successes(), self._failures()
        issues: list[Issue] = [_no_progress(mode)] if refining else []
        previous = mode.phi if refining else None
        kept = "the family's potential" if mode.phi is None else "as before"
        for attempt in range(1, 2 + REPAIRS):
            try:
                program = curriculum.compile_potential(
                    self.caller, mode, diagnosis, base, issues, attempt=attempt, previous=previous
                )
            except NoAnswer as error:
                return held, f"{kept}, the curriculum gave none ({error})"
            issues = check_potential(program, good, bad, failed_stage=diagnosis.failed_stage)
            if not issues:
                how = "refined" if refining else "compiled"
                return program, f"{program.name!r}, {how} in {attempt} attempt(s)"
            previous = program
        return held, f"{kept}, {REPAIRS + 1} answers failed ({issues[0].line()})"

    def _successes(self) -> list[SimFrame]:
        """Planner rollouts on scenes of omega, a state for every control step."""
        mode = self.mode
        draw = draw_scenes(self.work, mode.omega, CHECK_SCENES, f"{mode.mode_id}.check")
        if not draw.scenes:
            return []
        episodes = run_scenes(
            draw.scenes,
            ScriptedPlanner(),
            threads=self.work.deps.config.threads,
            max_steps=self.work.deps.config.max_steps // CHUNK * CHUNK,
            keep_fine=True,
        )
        return [
            SimFrame.unpack(episode.fine)
            for episode in episodes
            if episode.success and episode.fine is not None
        ]

    def _failures(self) -> list[SimFrame]:
        """Failed rollouts of the policy on the mode's axis."""
        return [
            SimFrame.unpack(trial.episode.fine)
            for group in self.failures()
            for trial in group.trials
            if trial.success is False and trial.episode.fine is not None
        ]


def _no_progress(mode: Mode) -> Issue:
    """Why phi is refined: training under it did not raise success on the mode's probes."""
    rates = [f"{successes}/{trials}" for _, successes, trials in mode.probe_history[-2:]]
    return Issue(
        code="no-learning-progress",
        path="stages",
        value=f"probe success {' -> '.join(rates)}",
        limit="a rise",
        remedy="give the stage at which it fails a larger share or a finer progress feature",
    )
