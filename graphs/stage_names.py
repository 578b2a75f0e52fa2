"""Names of the stages that a rollout goes through, by its family's base potential."""

from __future__ import annotations

from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.sim.frame import Array, SimFrame
from coda.sim.scene import Scene


def stage_names(scene: Scene, frames: Array) -> list[str]:
    """Stage of packed frames (N, F), one name each."""
    potential = Potential(base_program(scene.tau.family))
    value = potential.evaluate(SimFrame.unpack(frames))
    return [potential.stages[k] for k in value.stage.tolist()]
