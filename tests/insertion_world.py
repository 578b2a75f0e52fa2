"""Scenes and constructed states of stacking and insertion."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coda.sim.assets import ASSETS
from coda.sim.engine import ACTION_DIM, CHUNK, BatchSim
from coda.sim.families import family
from coda.sim.frame import SimFrame
from coda.sim.roles import ROLES, Role
from coda.sim.scene import Pose, Scene
from coda.sim.terms import PredicateTerm

FAMILY = family("stack-insert")
INSERTED = PredicateTerm(name="inserted", reference="receptacle")
ON = PredicateTerm(name="on", reference="receptacle")
TARGET, RECEPTACLE = ROLES.index("target"), ROLES.index("receptacle")
Array = npt.NDArray[np.float64]


def seed(task: str) -> Scene:
    return FAMILY.tasks[task].seed


def with_assets(scene: Scene, scale: float = 1.0, **assets: str) -> Scene:
    objects = dict(scene.alpha.objects)
    for role, name in assets.items():
        key: Role = "receptacle" if role == "receptacle" else "target"
        objects[key] = objects[key].model_copy(
            update={"asset": name, "mass_kg": ASSETS[name].mass_kg}
        )
    objects["target"] = objects["target"].model_copy(update={"scale": scale})
    return scene.model_copy(update={"alpha": scene.alpha.model_copy(update={"objects": objects})})


def moved(scene: Scene, **poses: tuple[float, float, float]) -> Scene:
    """A scene with other poses: x, y [m] and yaw [rad]."""
    held = dict(scene.sigma.poses)
    for role, (x, y, yaw) in poses.items():
        key = next(r for r in ROLES if r == role)
        held[key] = Pose(xy=(x, y), yaw=yaw)
    return scene.model_copy(update={"sigma": scene.sigma.model_copy(update={"poses": held})})


def put(
    sim: BatchSim, index: int, role: Role, pos: npt.ArrayLike, quat: Sequence[float]
) -> SimFrame:
    """Put a free object at a pose, at rest."""
    state = sim.state(index)
    free = sim.layout(index).free
    column, speed = next((q, v) for i, q, v in free if i == ROLES.index(role))
    state[column : column + 3] = pos
    state[column + 3 : column + 7] = quat
    state[speed : speed + 6] = 0.0
    return sim.set_state(index, state)


def tilted(angle: float, axis: float = 0.0) -> tuple[float, float, float, float]:
    """A turn by `angle` about a horizontal axis at heading `axis`."""
    s = math.sin(angle / 2)
    return (math.cos(angle / 2), s * math.cos(axis), s * math.sin(axis), 0.0)


def rest(sim: BatchSim, steps: int = 24) -> SimFrame:
    """Let objects come to rest with the arm still and the fingers open."""
    still = np.zeros((sim.batch, CHUNK, ACTION_DIM))
    still[:, :, 6] = -1.0
    for _ in range(steps // CHUNK):
        sim.step_chunk(still)
    return sim.frame()
