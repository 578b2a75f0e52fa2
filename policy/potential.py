r"""Staged potentials: Phi as a function of the present state (Text2potential).

Stage k is the last one whose entry holds; with its progress tau_k in [0, 1] and shares alpha,
``Phi = sum_{j<k} alpha_j + alpha_k tau_k``, in [0, 1]. A success is terminal and worth 0 in the
targets, whatever Phi says there (`coda.policy.targets`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coda.policy.program import LearningTools, Progress, Stage, TrainingProgram
from coda.sim.errors import UnknownName
from coda.sim.frame import Array, SimFrame
from coda.sim.predicates import evaluate
from coda.sim.roles import Role
from coda.sim.terms import PredicateName, PredicateTerm


@dataclass(frozen=True)
class PotentialValue:
    """Potential of a batch of states."""

    phi: Array
    """Phi, (B,), in [0, 1]."""
    stage: npt.NDArray[np.int64]
    """Index of the present stage, (B,)."""
    tau: Array
    """Progress within it, (B,), in [0, 1]."""

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> PotentialValue:
        """Select rows."""
        return PotentialValue(self.phi[rows], self.stage[rows], self.tau[rows])


class Potential:
    """A training program's Phi, evaluated on batches of states."""

    def __init__(self, program: TrainingProgram) -> None:
        self.program = program
        self.shares = np.array([stage.share for stage in program.stages])
        self.base = np.concatenate([[0.0], np.cumsum(self.shares)[:-1]])

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages, in order."""
        return tuple(stage.name for stage in self.program.stages)

    def tables(self, frame: SimFrame) -> tuple[npt.NDArray[np.bool_], Array]:
        """Entry truth and progress of every stage, each (B, K); a term is evaluated once."""
        seen: dict[PredicateTerm, tuple[npt.NDArray[np.bool_], Array]] = {}

        def look(term: PredicateTerm) -> tuple[npt.NDArray[np.bool_], Array]:
            if term not in seen:
                seen[term] = evaluate(term, frame)
            return seen[term]

        entered = np.ones((frame.batch, len(self.shares)), dtype=np.bool_)
        tau = np.empty((frame.batch, len(self.shares)))
        for k, stage in enumerate(self.program.stages):
            for term in stage.entry:
                entered[:, k] &= look(term)[0]
            progress = stage.progress
            margin = look(progress.term)[1]
            tau[:, k] = (margin - progress.start) / (progress.end - progress.start)
        return entered, np.clip(tau, 0.0, 1.0)

    def evaluate(self, frame: SimFrame) -> PotentialValue:
        """Phi, stage and progress of B states."""
        entered, tau = self.tables(frame)
        entered[:, 0] = True
        stage = entered.shape[1] - 1 - np.argmax(entered[:, ::-1], axis=1)
        now = tau[np.arange(frame.batch), stage]
        return PotentialValue(self.base[stage] + self.shares[stage] * now, stage, now)


def _term(
    name: PredicateName, limit: float | None = None, reference: Role | None = None
) -> PredicateTerm:
    return PredicateTerm(name=name, limit=limit, reference=reference)


def _pick_place() -> TrainingProgram:
    """Potential of pick-place: compiled from the task's description, before any diagnosis."""
    held = (_term("grasped"), _term("near", 0.035))
    on, free = _term("on", reference="receptacle"), _term("released")

    def stage(
        name: str,
        share: float,
        term: PredicateTerm,
        start: float,
        end: float,
        *entry: PredicateTerm,
    ) -> Stage:
        return Stage(
            name=name,
            entry=entry,
            progress=Progress(term=term, start=start, end=end),
            share=share,
        )

    near, above = _term("near", 0.0), _term("above", 0.0, "receptacle")
    return TrainingProgram(
        name="pick-place-base",
        family="pick-place",
        source_text="reach the target, grasp it, lift it, carry it over the receptacle, "
        "put it down, let go and leave it at rest",
        stages=(
            stage("reach", 0.20, near, -0.45, -0.10),
            stage(
                "descend",
                0.15,
                near,
                -0.10,
                -0.015,
                _term("near", 0.10),
                _term("aligned"),
                _term("opened"),
            ),
            stage("grasp", 0.10, _term("grasped"), -0.06, -0.002, _term("near"), _term("aligned")),
            stage("lift", 0.10, _term("lifted", 0.0), 0.0, 0.06, *held),
            stage("carry", 0.20, above, -0.45, -0.03, *held, _term("lifted", 0.05)),
            stage(
                "place",
                0.15,
                on,
                -0.12,
                0.0,
                *held,
                _term("above", 0.04, "receptacle"),
            ),
            stage("release", 0.05, _term("released"), -0.004, 0.002, on, _term("upright")),
            stage("rest", 0.05, _term("settled"), -0.2, 0.0, on, _term("upright"), free),
        ),
        tools=LearningTools(),
    )


_BASE = {"pick-place": _pick_place}


def base_program(family: str) -> TrainingProgram:
    """The potential of a family's task description. Raises `UnknownName`."""
    try:
        make = _BASE[family]
    except KeyError:
        raise UnknownName("task family with a base potential", family, _BASE) from None
    return make()
