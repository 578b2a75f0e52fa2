"""Models that are only drawn, small: the robot's meshes are compiled in their simplified form.

A drawing model holds all 329,000 vertices of robosuite's Panda, although a picture of 64 pixels
shows a few thousand. Here the faces that `coda.sim.simplify` leaves become the mesh assets, so that
a scene takes 1.3 MB in place of 45 and a fifth of the time to compile.
"""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ET

import mujoco
import numpy as np

from coda.sim.errors import SimulationError
from coda.sim.families import family
from coda.sim.mjcf import compile_scene, scene_xml
from coda.sim.mjcf_objects import fmt
from coda.sim.scene import Scene
from coda.sim.simplify import ARM, HAND, simplify_robot

LEAST_VERTICES = 4
"""Of a mesh, for MuJoCo; what is left of smaller parts is left out."""
COLLISION_GROUP = "3"

Meshes = dict[str, tuple[str, str]]
"""Vertices and faces of each mesh, as attributes' text."""


def light_model(scene: Scene, cell_m: float) -> mujoco.MjModel:
    """Compile a scene for pictures in which details smaller than `cell_m` [m] do not count.

    Joints and bodies are those of the model that is simulated; collision shapes of the robot are
    left out.
    """
    root = ET.fromstring(scene_xml(scene, visual=True))
    assets = root.find("asset")
    if assets is None:
        raise SimulationError("the robot model has no asset section.")
    meshes = _meshes(cell_m)
    for body in root.iter("body"):
        for geom in body.findall("geom"):
            name = geom.get("mesh", "")
            hidden = geom.get("group") == COLLISION_GROUP
            if name.startswith((ARM, HAND)) and (hidden or name not in meshes):
                body.remove(geom)
    for mesh in assets.findall("mesh"):
        name = mesh.get("name", "")
        if name in meshes:
            del mesh.attrib["file"]
            vertices, faces = meshes[name]
            mesh.attrib |= {"vertex": vertices, "face": faces, "inertia": "shell"}
        elif name.startswith((ARM, HAND)):
            assets.remove(mesh)
    return mujoco.MjModel.from_xml_string(ET.tostring(root, encoding="unicode"))


@functools.lru_cache(maxsize=4)
def _meshes(cell_m: float) -> Meshes:
    """The robot's drawn meshes, simplified, in the frames of their files."""
    model = compile_scene(family("pick-place").seed, visual=True)
    simplify_robot(model, cell_m)
    found: Meshes = {}
    for g in range(model.ngeom):
        mesh = int(model.geom_dataid[g])
        if model.geom_type[g] != mujoco.mjtGeom.mjGEOM_MESH or mesh < 0:
            continue
        name = model.mesh(mesh).name
        if not name.startswith((ARM, HAND)):
            continue
        first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        start, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        used, corners = np.unique(model.mesh_face[start : start + faces], return_inverse=True)
        if len(used) < LEAST_VERTICES:
            continue
        rot = np.zeros(9)
        mujoco.mju_quat2Mat(rot, model.mesh_quat[mesh])
        own = model.mesh_vert[first : first + count][used]  # MuJoCo has centred and turned them
        points = own @ rot.reshape(3, 3).T + model.mesh_pos[mesh]
        found[name] = fmt(np.round(points, 6)), " ".join(str(c) for c in corners.ravel())
    return found
