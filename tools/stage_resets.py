"""Stage resets: states of the policy's rollouts at the stage that fails, to begin searches in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda.policy.potential import Potential
from coda.sim.frame import SimFrame
from coda.sim.rollout import EpisodeData, Outcome
from coda.sim.scene_state import SceneState

STATES_PER_EPISODE = 3
"""Most states kept of one rollout."""


def failing_states(
    episodes: Sequence[EpisodeData], potential: Potential, most: int, *, rng: np.random.Generator
) -> list[SceneState]:
    """Chunk starts in the stage where each rollout failed, drawn at random, at most `most`.

    That stage is the one of the rollout's highest potential. Successes, crashes and rollouts whose
    simulator states were not kept give none.
    """
    found: list[SceneState] = []
    for episode in episodes:
        if episode.outcome is not Outcome.TIMEOUT or episode.states is None:
            continue
        value = potential.evaluate(SimFrame.unpack(episode.frames))
        failed = value.stage[int(np.argmax(value.phi))]
        there = np.flatnonzero(value.stage[:-1] == failed)
        for t in rng.permutation(there)[:STATES_PER_EPISODE].tolist():
            found.append(
                SceneState(scene=episode.scene, row=episode.states[t], frame=episode.frames[t])
            )
    return [found[i] for i in rng.permutation(len(found))[:most].tolist()]
