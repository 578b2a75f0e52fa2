"""The physics time step: what the planner does at 5 ms matches what it does at 1 ms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coda.sim.engine import BatchSim
from coda.sim.families import FAMILIES
from coda.sim.frame import SimFrame
from coda.sim.mjcf import PHYSICS_DT_S
from coda.sim.planner import ScriptedPlanner
from coda.sim.roles import ROLES
from coda.sim.rollout import EpisodeData, run_episodes
from coda.sim.splits import evaluation_set

FINE_S = 0.001
SCENES = 16
"""Scenes of each family, spread over its OOD file."""
SETTLE_M = 0.001
"""Largest difference of where an object comes to rest before it is touched [m]."""
TARGET = ROLES.index("target")


def rollouts(family: str, dt_s: float) -> list[EpisodeData]:
    scenes = evaluation_set("ood", family).scenes
    chosen = scenes[:: len(scenes) // SCENES][:SCENES]
    return run_episodes(BatchSim(chosen, dt_s=dt_s), ScriptedPlanner(), keep_fine=True)


def held_share(episode: EpisodeData) -> float:
    """Share of the control steps in which both fingers hold the target or the handle."""
    assert episode.fine is not None
    frame = SimFrame.unpack(episode.fine)
    roles = [TARGET, ROLES.index("handle")]
    both = (frame.touch_left[:, roles] > 0) & (frame.touch_right[:, roles] > 0)
    return float(both.any(axis=1).mean())


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_success_holding_and_settling_match_a_five_times_finer_step(family: str) -> None:
    coarse, fine = rollouts(family, PHYSICS_DT_S), rollouts(family, FINE_S)
    ok = [np.array([e.success for e in episodes]) for episodes in (coarse, fine)]
    rate = 0.5 * (ok[0].mean() + ok[1].mean())
    noise = math.sqrt(2.0 * max(rate * (1.0 - rate), 1.0 / SCENES) / SCENES)
    assert abs(ok[0].mean() - ok[1].mean()) <= 2.0 * noise
    first = [np.stack([e.frames[0] for e in episodes]) for episodes in (coarse, fine)]
    rest = [SimFrame.unpack(packed).pos for packed in first]
    assert np.linalg.norm(rest[0] - rest[1], axis=-1).max() < SETTLE_M
    both = np.flatnonzero(ok[0] & ok[1]).tolist()
    assert len(both) >= SCENES // 2
    gaps = [held_share(coarse[i]) - held_share(fine[i]) for i in both]
    assert abs(float(np.mean(gaps))) < 0.05
