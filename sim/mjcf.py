"""MJCF of a scene: robosuite's Panda and objects, a table, position servos in place of motors."""

from __future__ import annotations

import copy
import functools
import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim.errors import SimulationError
from coda.sim.kinematics import robot_xml
from coda.sim.mjcf_objects import add_object, fmt
from coda.sim.mjcf_touch import add_touch_sensors
from coda.sim.scene import Scene

PHYSICS_DT_S = 0.005
TABLE_CENTER_M = (0.50, 0.0, -0.025)
TABLE_HALF_M = (0.32, 0.45, 0.025)
FLOOR_Z_M = -0.6
SERVO_KP = (4500.0, 4500.0, 3500.0, 3500.0, 2000.0, 2000.0, 2000.0)
"""Stiffness of the joint servos [N m / rad]."""
SERVO_KV = (450.0, 450.0, 350.0, 350.0, 200.0, 200.0, 200.0)
"""Damping of the joint servos [N m s / rad]."""
SERVO_FORCE = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
"""Torque limits of the Panda's joints [N m]."""
ARMATURE = 0.1
VIEW_FOVY_DEG = 52.0
_VIEW_TARGET = np.array([0.47, 0.0, 0.06])
_VIEW_FROM = np.array([1.12, 0.0, 0.68])


@functools.cache
def _robot_base(visual: bool) -> ET.Element:
    root = ET.fromstring(robot_xml())
    used: set[str | None] = set()
    for body in root.iter("body"):
        for child in list(body):
            if child.tag == "geom" and (child.get("group") == "1") != visual:
                if visual:
                    child.set("rgba", "0 0 0 0")  # collision shape: kept, not drawn
                else:
                    body.remove(child)
        for child in body.findall("geom"):
            if child.get("group") != "1":
                pad = "pad" in child.get("name", "")
                child.set("contype", "1" if pad else "0")
                child.set("conaffinity", "1")
                child.set("group", "3")
            used.add(child.get("mesh"))
        for child in list(body):
            if child.tag == "inertial" and child.get("mass") == "0":
                body.remove(child)
            if child.tag == "joint" and not child.get("name", "").startswith("gripper"):
                child.set("armature", str(ARMATURE))
        body.set("gravcomp", "1")
    assets = root.find("asset")
    actuators = root.find("actuator")
    sensors = root.find("sensor")
    if assets is None or actuators is None:
        raise SimulationError("robosuite's Panda model has no asset or actuator section.")
    if sensors is not None:
        root.remove(sensors)
    if not visual:
        for child in list(assets):
            if child.tag != "mesh" or child.get("name") not in used:
                assets.remove(child)
    for child in list(actuators):
        if child.tag == "motor":
            actuators.remove(child)
    fingers = list(actuators)
    for child in fingers:
        actuators.remove(child)
    for i in range(7):
        ET.SubElement(
            actuators,
            "position",
            name=f"servo{i + 1}",
            joint=f"robot0_joint{i + 1}",
            kp=str(SERVO_KP[i]),
            kv=str(SERVO_KV[i]),
            forcerange=f"{-SERVO_FORCE[i]} {SERVO_FORCE[i]}",
        )
    actuators.extend(fingers)
    option = ET.SubElement(
        root, "option", timestep=str(PHYSICS_DT_S), integrator="implicitfast", cone="pyramidal"
    )
    ET.SubElement(option, "flag", autoreset="disable", multiccd="enable")
    ET.SubElement(root, "size", memory="8M")
    compiler = ET.SubElement(root, "compiler")
    compiler.set("angle", "radian")
    return root


def _camera(world: ET.Element) -> None:
    forward = _VIEW_TARGET - _VIEW_FROM
    z = -forward / np.linalg.norm(forward)
    x = np.cross([0.0, 0.0, 1.0], z)
    x /= np.linalg.norm(x)
    axes = " ".join(f"{v:.6f}" for v in (*x, *np.cross(z, x)))
    pos = " ".join(f"{v:.4f}" for v in _VIEW_FROM)
    ET.SubElement(world, "camera", name="agentview", pos=pos, xyaxes=axes, fovy=str(VIEW_FOVY_DEG))


def scene_xml(scene: Scene, *, visual: bool = False) -> str:
    """MJCF text of a scene. With `visual`, robosuite's visual meshes, floor and lights too."""
    root = copy.deepcopy(_robot_base(visual))
    world = root.find("worldbody")
    if world is None:
        raise SimulationError("the robot model has no worldbody.")
    _camera(world)
    hand = next(b for b in root.iter("body") if b.get("name") == "gripper0_eef")
    ET.SubElement(hand, "site", name="grip", quat="0.70710678 0 0 0.70710678", size="0.005")
    table = ET.SubElement(
        world,
        "geom",
        name="table",
        type="box",
        pos=fmt(TABLE_CENTER_M),
        size=fmt(TABLE_HALF_M),
        friction="1 0.005 0.0001",
        rgba="0.72 0.62 0.5 1",
        group="2",
    )
    ET.SubElement(
        world,
        "geom",
        name="floor",
        type="plane",
        pos=fmt((0.0, 0.0, FLOOR_Z_M)),
        size="4 4 0.1",
        rgba="0.82 0.84 0.86 1",
        group="1",
    )  # an object pushed off the table comes to rest: a failure, not a crash
    if visual:
        _dress(root, world, table)
    for role in scene.roles:
        pose, record = scene.sigma.poses[role], scene.alpha.objects[role]
        add_object(root, role, pose, record, visual=visual)
    add_touch_sensors(root, scene)
    return ET.tostring(root, encoding="unicode")


def _dress(root: ET.Element, world: ET.Element, table: ET.Element) -> None:
    assets = root.find("asset")
    if assets is None:
        raise SimulationError("the robot model has no asset section.")
    ET.SubElement(
        assets,
        "texture",
        name="sky",
        type="skybox",
        builtin="gradient",
        rgb1="0.93 0.95 0.97",
        rgb2="0.75 0.80 0.86",
        width="64",
        height="64",
    )
    ET.SubElement(world, "light", pos="0.6 0.5 1.8", dir="-0.1 -0.3 -1", diffuse="0.7 0.7 0.7")
    ET.SubElement(
        world,
        "light",
        pos="0.9 -0.8 1.5",
        dir="-0.3 0.5 -1",
        diffuse="0.35 0.35 0.35",
        castshadow="false",
    )
    table.set("rgba", "0.76 0.66 0.53 1")
    visual = ET.SubElement(root, "visual")
    ET.SubElement(visual, "headlight", ambient="0.35 0.35 0.35", diffuse="0.25 0.25 0.25")
    ET.SubElement(visual, "global", offwidth="1280", offheight="960")


def project(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Project points (N, 3) [m] into the agent view.

    Returns:
        (N, 3): column and row as fractions of a square picture (0 to 1 inside), depth [m].
    """
    z = (_VIEW_FROM - _VIEW_TARGET) / np.linalg.norm(_VIEW_FROM - _VIEW_TARGET)
    x = np.cross([0.0, 0.0, 1.0], z)
    x /= np.linalg.norm(x)
    local = (points - _VIEW_FROM) @ np.stack((x, np.cross(z, x), z), axis=1)
    depth = -local[:, 2]
    half = np.tan(np.deg2rad(VIEW_FOVY_DEG) / 2)
    u, v = local[:, 0] / (depth * half), local[:, 1] / (depth * half)
    return np.stack(((u + 1) / 2, (1 - v) / 2, depth), axis=1)


def compile_scene(scene: Scene, *, visual: bool = False) -> mujoco.MjModel:
    """Compile a scene. Raises `SimulationError` with MuJoCo's own words where it refuses."""
    try:
        return mujoco.MjModel.from_xml_string(scene_xml(scene, visual=visual))
    except ValueError as error:
        words = " ".join(str(error).split())
        raise SimulationError(f"scene {scene.digest()} does not compile: {words}") from None
