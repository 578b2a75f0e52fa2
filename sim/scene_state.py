"""States of single scenes: cut out of one batch, put into another, continued bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coda.sim.engine import BatchSim, Snapshot
from coda.sim.errors import SimulationError
from coda.sim.frame import Array, SimFrame
from coda.sim.kinematics import N_JOINTS
from coda.sim.scene import Scene


@dataclass(frozen=True, kw_only=True)
class SceneState:
    """One scene between two chunks; it restores in that scene only, in any batch."""

    scene: Scene
    row: Array
    """What the simulator needs, (8 + S,); see `state_rows`."""
    frame: Array
    """Packed frame (F,)."""


def state_rows(snapshot: Snapshot) -> Array:
    """Commanded joints (7), steps that the verifier held, physics (S) of every scene, (B, 8 + S).

    Together with the frame that is all that a scene goes on from.
    """
    hold = snapshot.hold[:, None].astype(np.float64)
    return np.concatenate((snapshot.q_cmd, hold, snapshot.physics), axis=1)


def start_from(sim: BatchSim, states: Mapping[int, SceneState]) -> SimFrame:
    """Put some scenes of a batch, by index, into kept states; the others stay as they are.

    Raises:
        SimulationError: A state belongs to another scene.
    """
    snapshot = sim.snapshot()
    for b, state in states.items():
        if sim.scenes[b] != state.scene:
            raise SimulationError(
                f"the state for place {b} of the batch is of another scene; "
                "a state restores in its own scene only."
            )
        physics = state.row[N_JOINTS + 1 :]
        size = 1 + sim.models[b].nq + sim.models[b].nv
        snapshot.physics[b, :size] = physics[:size]
        snapshot.q_cmd[b] = state.row[:N_JOINTS]
        snapshot.hold[b] = int(state.row[N_JOINTS])
        snapshot.frame[b] = state.frame
    return sim.restore(snapshot)
