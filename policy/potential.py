r"""Staged potentials: Phi as a function of the present state (Text2potential).

Stage k is the last one whose entry holds; with its progress tau_k in [0, 1] and shares alpha,
``Phi = sum_{j<k} alpha_j + alpha_k tau_k``, in [0, 1]. A success is terminal and worth 0 in the
targets, whatever Phi says there (`coda.policy.targets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from coda.policy.program import TrainingProgram
from coda.sim.frame import Array, SimFrame
from coda.sim.predicates import evaluate
from coda.sim.terms import PredicateTerm


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


class StatePotential(Protocol):
    """A function of the present state that may shape rewards: all that value learning asks of."""

    def evaluate(self, frame: SimFrame) -> PotentialValue:
        """Phi, stage and progress of B states."""
        ...


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


class BlendedPotential:
    """Weighted mean of potentials of one family: a function of the state in [0, 1] like each.

    Stage and progress are those of the first, whose stages a critic is told.

    Args:
        parts: Potentials, at least one.
        weights: Their weights, not negative; taken as equal where all are zero.
    """

    def __init__(self, parts: Sequence[Potential], weights: Sequence[float]) -> None:
        if not parts or len(parts) != len(weights) or min(weights) < 0:
            raise ValueError(f"{len(parts)} potentials with weights {list(weights)!r:.80}")
        total = sum(weights)
        self.parts = tuple(parts)
        self.weights = tuple(w / total if total else 1.0 / len(weights) for w in weights)

    def evaluate(self, frame: SimFrame) -> PotentialValue:
        """Mean Phi (B,), with stage and progress of the first."""
        values = [part.evaluate(frame) for part in self.parts]
        phi = np.sum([w * v.phi for w, v in zip(self.weights, values, strict=True)], axis=0)
        return PotentialValue(np.clip(phi, 0.0, 1.0), values[0].stage, values[0].tau)
