"""Lifecycle of a mode: candidate, validated, training, then retained, mastered or parked.

Nothing is deleted: mastered and parked modes are probed again as they grow stale, and come back
when the probe says so. A status that a person fixed is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coda.memory.progress import BandDecision
from coda.memory.records import Mode, ModeStatus
from coda.sim.errors import CodaError

PATIENCE = 2
"""Probes without a rise after which a mode below the band is parked."""

NEXT: Mapping[ModeStatus, tuple[ModeStatus, ...]] = MappingProxyType(
    {
        "candidate": ("validated", "parked"),
        "validated": ("training", "retained", "mastered", "parked"),
        "training": ("retained", "mastered", "parked"),
        "retained": ("training", "mastered", "parked"),
        "mastered": ("validated", "training", "retained", "parked"),
        "parked": ("candidate", "validated", "training", "retained", "mastered"),
    }
)
"""Which status may follow which."""


class ModeError(CodaError):
    """A mode cannot be changed as asked."""


def check_step(mode: Mode, status: ModeStatus) -> None:
    """Raise `ModeError` unless `status` may follow the mode's own."""
    if status != mode.status and status not in NEXT[mode.status]:
        raise ModeError(
            f"mode {mode.mode_id} is {mode.status}; it cannot become {status}, "
            f"only {', '.join(NEXT[mode.status])}."
        )


def stalled(mode: Mode, patience: int = PATIENCE) -> bool:
    """The last `patience` probes are no better than the best before them."""
    rates = [successes / trials for _, successes, trials in mode.probe_history if trials]
    if len(rates) <= patience:
        return False
    return max(rates[-patience:]) <= max(rates[:-patience])


def after_probe(
    mode: Mode, decision: BandDecision, *, patience: int = PATIENCE
) -> tuple[ModeStatus, str]:
    """Status that a mode has after a probe (which its history holds already), and why.

    =========  =======================  ==========================  =============
    Probe      mastered                 parked                      others
    =========  =======================  ==========================  =============
    above      stays                    mastered                    mastered
    inside     training (forgotten)     retained (it teaches now)   retained
    below      training (forgotten)     stays                       parked if stalled
    undecided  stays                    stays                       stays
    =========  =======================  ==========================  =============

    A candidate keeps its status: only a control test validates it.
    """
    rate = f"{decision.count.successes}/{decision.count.trials}"
    where = decision.membership
    if where == "undecided" or mode.status == "candidate":
        return mode.status, mode.reason
    if where == "above":
        return "mastered", f"probe {rate}: above the band"
    if mode.status == "mastered":
        return "training", f"probe {rate}: no longer above the band, forgotten"
    if where == "inside":
        came_back = "it teaches now" if mode.status == "parked" else "still teaches"
        return "retained", f"probe {rate}: inside the band, {came_back}"
    if mode.status != "parked" and stalled(mode, patience):
        return "parked", f"probe {rate}: below the band, and no rise in {patience} probes"
    return mode.status, mode.reason
