"""Put inside: containers, seeds, ranges, and what counts as being inside."""

from __future__ import annotations

import numpy as np

from coda.sim.engine import BatchSim
from coda.sim.families import family
from coda.sim.planner import ScriptedPlanner
from coda.sim.scene import Attributes, Scene

FAMILY = family("put-inside")


def with_asset(scene: Scene, role: str, asset: str) -> Scene:
    """`scene` with another asset in a role."""
    objects = dict(scene.alpha.objects)
    key = next(name for name in objects if name == role)
    objects[key] = objects[key].model_copy(update={"asset": asset})
    return scene.model_copy(update={"alpha": Attributes(objects=objects)})


def test_scenes_whose_bodies_have_other_inertia_do_not_share_memory() -> None:
    """The sponge's centre of mass is off its origin: a denser matrix under the same signature."""
    scenes = [with_asset(FAMILY.seed, "target", name) for name in ("soap", "sponge", "candle")]
    together = BatchSim(scenes)
    planner = ScriptedPlanner()
    frame = together.reset()
    chunks = []
    for _ in range(3):
        chunks.append(planner(frame, np.ones(3, dtype=np.bool_)))
        frame = together.step_chunk(chunks[-1]).frame
    for i, scene in enumerate(scenes):
        alone = BatchSim([scene])
        alone.reset()
        for chunk in chunks:
            alone.step_chunk(chunk[i : i + 1])
        assert np.array_equal(alone.frame().pack()[0], frame.pack()[i]), scene.alpha.objects
