"""Contact sensors: which roles, fingers and table touch, read by the recorder."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from typing import Literal, NamedTuple

from coda.sim.assets import ASSETS
from coda.sim.roles import ROLES, Role
from coda.sim.scene import Scene

LEFT_FINGER = "gripper0_leftfinger"
RIGHT_FINGER = "gripper0_rightfinger"
ROBOT = "robot0_base"


class Touch(NamedTuple):
    """What one contact sensor says."""

    kind: Literal["left", "right", "table", "pair", "robot-table"]
    first: int
    """Role index; 0 where the sensor is about the robot."""
    second: int
    """Second role of a pair, else 0."""


def fixture_role(scene: Scene) -> Role | None:
    """The role whose asset has a joint, or None."""
    for role in scene.roles:
        if ASSETS[scene.alpha.objects[role].asset].joint is not None:
            return role
    return None


def bound_roles(scene: Scene) -> tuple[Role, ...]:
    """Every role of a scene, a fixture's handle included, in the order of `ROLES`."""
    have = set(scene.roles)
    if fixture_role(scene) is not None:
        have.add("handle")
    return tuple(role for role in ROLES if role in have)


def touch_plan(scene: Scene) -> tuple[Touch, ...]:
    """The contact sensors of a scene, in the order of its sensor data."""
    roles = bound_roles(scene)
    fixture = fixture_role(scene)
    plan = []
    for role in roles:
        i = ROLES.index(role)
        plan += [Touch("left", i, 0), Touch("right", i, 0)]
        if not _fixed(scene, role):
            plan.append(Touch("table", i, 0))
    for a, b in itertools.combinations(roles, 2):
        own = "handle" in (a, b) and fixture in (a, b)
        if not own and not (_fixed(scene, a) and _fixed(scene, b)):
            plan.append(Touch("pair", ROLES.index(a), ROLES.index(b)))
    plan.append(Touch("robot-table", 0, 0))
    return tuple(plan)


def _fixed(scene: Scene, role: Role) -> bool:
    return role == "handle" or ASSETS[scene.alpha.objects[role].asset].fixed


def add_touch_sensors(root: ET.Element, scene: Scene) -> None:
    """Add the sensors of `touch_plan` to an MJCF tree."""
    sensors = ET.SubElement(root, "sensor")
    for touch in touch_plan(scene):
        first: dict[str, str] = {"subtree1": ROLES[touch.first]}
        match touch.kind:
            case "left":
                second = {"subtree2": LEFT_FINGER}
            case "right":
                second = {"subtree2": RIGHT_FINGER}
            case "table":
                second = {"geom2": "table"}
            case "pair":
                second = {"subtree2": ROLES[touch.second]}
            case "robot-table":
                first, second = {"subtree1": ROBOT}, {"geom2": "table"}
        ET.SubElement(sensors, "contact", first | second | {"num": "1", "data": "found"})
