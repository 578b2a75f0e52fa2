"""Pairs of a control test: the same placement and policy noise in target, control and placebo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coda.agents.refuter import ControlPlan
from coda.graphs.work import Work
from coda.memory.records import Diagnosis
from coda.sim.errors import SceneError
from coda.sim.paths import apply_edits
from coda.sim.program import GenerationProgram
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.tools.acting import Acting
from coda.tools.control_test import ARMS, ArmName, PairOutcome
from coda.tools.evaluation import Label, Origin, Trial

DRAWS = 4
"""Placements tried for each pair; a pair without a sound one is dropped, like a crash."""

Arms = Mapping[ArmName, Scene]


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """Draws pairs from fresh validation seeds, and runs one arm on them at a time."""

    work: Work
    policy: Acting
    diagnosis: Diagnosis
    program: GenerationProgram
    plan: ControlPlan
    block: int
    """Pairs that share a batch, and so a noise seed, in every arm."""
    pairs: dict[int, Arms | None]
    """Scenes of the pairs drawn so far; None for a dropped one."""

    def evaluate(self, arm: ArmName, pairs: range) -> list[PairOutcome]:
        """Outcomes of an arm on the pairs with these indices, in order."""
        outcomes: list[PairOutcome] = []
        for index in pairs:
            if index not in self.pairs:
                self._draw(range(index, min(index + self.block, pairs.stop)))
        start = pairs.start
        while start < pairs.stop:
            stop = min((start // self.block + 1) * self.block, pairs.stop)
            outcomes += self._run(arm, range(start, stop))
            start = stop
        return outcomes

    def _draw(self, indices: range) -> None:
        """Draw pairs; placements that fail the gate in any arm are drawn again."""
        open_ = [index for index in indices if index not in self.pairs]
        for attempt in range(DRAWS):
            drawn = [(i, arms) for i in open_ if (arms := self._sample(i, attempt)) is not None]
            reports = self.work.deps.gate.check([a[arm] for _, a in drawn for arm in ARMS])
            for n, (index, arms) in enumerate(drawn):
                if all(r.accepted for r in reports[n * len(ARMS) : (n + 1) * len(ARMS)]):
                    self.pairs[index] = arms
            open_ = [index for index in open_ if index not in self.pairs]
            if not open_:
                return
        self.pairs.update(dict.fromkeys(open_, None))

    def _sample(self, index: int, attempt: int) -> Arms | None:
        labels = (self.diagnosis.diagnosis_id, index, attempt)
        rng = self.work.rng("validate", *labels)
        try:
            target = sample_scene(self.program, rng, guard=self.work.deps.splits)
            return {
                "target": target,
                "control": apply_edits(
                    target, self.plan.control, self.work.rng("validate", *labels, "edit")
                ),
                "placebo": apply_edits(
                    target, self.plan.placebo, self.work.rng("validate", *labels, "edit")
                ),
            }
        except (Rejected, SceneError):
            return None

    def _run(self, arm: ArmName, indices: range) -> list[PairOutcome]:
        known = [(i, arms) for i in indices if (arms := self.pairs[i]) is not None]
        diagnosis_id = self.diagnosis.diagnosis_id
        done: dict[int, Trial] = {}
        if known:
            trials = self.work.deps.evaluator.evaluate(
                self.policy,
                [arms[arm] for _, arms in known],
                seed=self.work.seed("validate", diagnosis_id, indices.start),
                origin=Origin(
                    node_key=self.work.key,
                    purpose="validate",
                    prefix=f"{diagnosis_id}:{arm}:{indices.start:03d}",
                ),
                labels=Label(
                    axis=self.diagnosis.axis,
                    program=self.program.name,
                    detail={"arm": arm, "diagnosis": diagnosis_id},
                ),
            )
            done = {i: trial for (i, _), trial in zip(known, trials, strict=True)}
        return [
            PairOutcome(success=t.success, progress=t.progress, episode_id=t.episode_id)
            if (t := done.get(i)) is not None
            else PairOutcome(success=None, progress=0.0, episode_id=f"{diagnosis_id}:{i:03d}:none")
            for i in indices
        ]
