"""Scenes for the engine's benchmark: two free cubes as in robosuite's Stack, and clutter."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import mujoco
import numpy as np

from coda.sim.families import family
from coda.sim.mjcf import scene_xml
from coda.sim.scene import ObjectAttributes, Pose, Scene

SEED = 0


def scenes_of(count: int) -> list[Scene]:
    """Scenes of stacking two cubes at random places and turns."""
    rng = np.random.default_rng(SEED)
    seed = family("stack-insert").tasks["stack-two"].seed
    cube = ObjectAttributes(asset="cube")
    scenes = []
    for _ in range(count):
        poses = {
            "target": Pose(
                xy=(rng.uniform(0.38, 0.55), rng.uniform(-0.2, -0.06)), yaw=rng.uniform(-0.7, 0.7)
            ),
            "receptacle": Pose(
                xy=(rng.uniform(0.38, 0.55), rng.uniform(0.06, 0.2)), yaw=rng.uniform(-0.7, 0.7)
            ),
        }
        sigma = seed.sigma.model_copy(update={"poses": poses})
        alpha = seed.alpha.model_copy(update={"objects": {"target": cube, "receptacle": cube}})
        scenes.append(seed.model_copy(update={"sigma": sigma, "alpha": alpha}))
    return scenes


def variants(count: int) -> list[Scene]:
    """Variants of one topology: places, turns, sizes and masses differ."""
    rng = np.random.default_rng(SEED + 1)
    varied = []
    for scene in scenes_of(count):
        objects = {
            role: record.model_copy(
                update={"scale": rng.uniform(0.8, 1.2), "mass_kg": rng.uniform(0.05, 0.2)}
            )
            for role, record in scene.alpha.objects.items()
        }
        varied.append(
            scene.model_copy(update={"alpha": scene.alpha.model_copy(update={"objects": objects})})
        )
    return varied


def cluttered(scene: Scene, objects: int) -> mujoco.MjModel:
    """The scene's model with free cubes added at the table's sides, `objects` in all."""
    root = ET.fromstring(scene_xml(scene))
    world = root.find("worldbody")
    assert world is not None
    for k in range(objects - len(scene.roles)):
        x, y = 0.34 + 0.07 * (k // 2), (0.34 if k % 2 else -0.34)
        body = ET.SubElement(world, "body", name=f"clutter{k}", pos=f"{x:.3f} {y:.3f} 0.0225")
        ET.SubElement(body, "freejoint")
        ET.SubElement(
            body, "geom", type="box", size="0.022 0.022 0.022", mass="0.1", condim="4", priority="1"
        )
    return mujoco.MjModel.from_xml_string(ET.tostring(root, encoding="unicode"))
