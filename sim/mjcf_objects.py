"""MJCF of a scene's objects and fixtures, from their assets."""

from __future__ import annotations

import functools
import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coda.sim.asset import Asset, Joint, Part, Vec3
from coda.sim.assets import ASSETS, half_size, scaled
from coda.sim.errors import SimulationError
from coda.sim.libero_files import asset_model
from coda.sim.roles import Role
from coda.sim.scene import ObjectAttributes, Pose
from coda.sim.vendor import import_robosuite
from coda.sim.wording import colour_name

HULL_VERTICES = 40
"""Vertices kept of an object mesh's convex hull."""
DISC_RADIUS = 1.128
"""Radius of a disc over the half side of the square of equal area."""
GAP_M = 0.0005
"""Height over the table at which free objects start [m]."""
HANDLE_BODY = "handle"
_AXIS_QUAT = {"x": "0.70710678 0 0.70710678 0", "y": "0.70710678 0.70710678 0 0"}


def fmt(values: npt.ArrayLike) -> str:
    """Numbers as an attribute's text."""
    return " ".join(f"{float(v):.9g}" for v in np.ravel(np.asarray(values)))


def moving_body(role: Role) -> str:
    """Name of the body that moves with a fixture's joint."""
    return f"{role}_moving"


@functools.cache
def _mesh_element(class_name: str) -> ET.Element:
    import_robosuite()
    from robosuite.models import objects

    model = getattr(objects, class_name)(name="a")
    mesh: ET.Element | None = model.asset.find("mesh")
    if mesh is None:
        raise SimulationError(f"robosuite's {class_name} has no mesh.")
    return mesh


def _toned(rgba: Sequence[float], tone: float) -> str:
    return fmt([min(1.0, v * tone) for v in rgba[:3]] + [rgba[3]])


def _box_quat(part: Part) -> str:
    c, s = math.cos(part.yaw / 2), math.sin(part.yaw / 2)
    cp, sp = math.cos(part.pitch / 2), math.sin(part.pitch / 2)
    return fmt((c * cp, -s * sp, c * sp, s * cp))


def _volume(part: Part) -> float:
    x, y, z = part.half_m
    if part.shape == "box":
        return 8.0 * x * y * z
    return 2.0 * math.pi * x * x * z if part.shape == "cylinder" else 4.19 * x**3


def add_object(
    root: ET.Element,
    role: Role,
    pose: Pose,
    attributes: ObjectAttributes,
    *,
    visual: bool = False,
) -> None:
    """Add the body of one role to an MJCF tree, with its joint and meshes.

    With `visual`, the meshes and textures of assets that have them beside what collides.
    """
    world, assets = root.find("worldbody"), root.find("asset")
    if world is None or assets is None:
        raise SimulationError("the robot model has no worldbody or asset section.")
    asset = ASSETS[attributes.asset]
    half = half_size(attributes)
    yaw = pose.yaw
    body = ET.SubElement(
        world,
        "body",
        name=role,
        pos=fmt((*pose.xy, half[2] + (0.0 if asset.fixed else GAP_M))),
        quat=fmt((np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))),
    )
    if not asset.fixed:
        ET.SubElement(body, "freejoint", name=f"{role}_joint")
    if asset.shape == "parts":
        _add_parts(body, asset.parts, attributes, attributes.mass_kg, (0.0, 0.0, 0.0), role)
    elif asset.shape == "mjcf":
        _add_file(body, assets, role, attributes, visual)
    else:
        _add_shape(body, assets, role, attributes, asset)
    if asset.joint is not None:
        _add_joint(root, body, role, attributes, asset.joint)


def _surface(attributes: ObjectAttributes, mass_kg: float, tone: float = 1.0) -> dict[str, str]:
    """Attributes shared by an object's colliding geoms."""
    return {
        "rgba": _toned(attributes.rgba, tone),
        "mass": f"{mass_kg:.9g}",
        "friction": f"{attributes.friction:.9g} 0.01 0.0002",
        "priority": "1",
        "condim": "4",
        "group": "2",
        "solref": "0.015 1",
    }


def _add_shape(
    body: ET.Element, assets: ET.Element, role: Role, attributes: ObjectAttributes, asset: Asset
) -> None:
    half = half_size(attributes)
    geom = {"name": f"{role}_geom", **_surface(attributes, attributes.mass_kg)}
    if asset.shape == "mesh" and asset.robosuite_class is not None:
        mesh = _mesh_element(asset.robosuite_class)
        scale = [float(v) for v in mesh.get("scale", "1 1 1").split()]
        ET.SubElement(
            assets,
            "mesh",
            name=f"{role}_mesh",
            file=mesh.get("file", ""),
            scale=fmt([v * attributes.scale for v in scale]),
            maxhullvert=str(HULL_VERTICES),
        )
        offset = scaled(asset.center_m, -attributes.scale)
        ET.SubElement(
            body, "geom", geom | {"type": "mesh", "mesh": f"{role}_mesh", "pos": fmt(offset)}
        )
    elif asset.shape == "cylinder":
        ET.SubElement(body, "geom", geom | {"type": "cylinder", "size": fmt((half[0], half[2]))})
    else:
        if asset.shape == "disc":
            _add_visual_disc(body, half, geom["rgba"])
            geom |= {"group": "3", "rgba": "0 0 0 0"}
        ET.SubElement(body, "geom", geom | {"type": "box", "size": fmt(half)})


def _add_file(
    body: ET.Element, assets: ET.Element, role: Role, attributes: ObjectAttributes, visual: bool
) -> None:
    """Add the boxes that collide, and what is drawn in their place."""
    asset, scale = ASSETS[attributes.asset], attributes.scale
    model = asset_model(asset)
    total = sum(math.prod(box.half_m) for box in model.boxes)
    colour = asset.own_rgba
    own = colour is not None and colour_name(colour) == colour_name(attributes.rgba)
    for k, box in enumerate(model.boxes):
        share = attributes.mass_kg * math.prod(box.half_m) / total
        geom = {"name": f"{role}_geom{k}", **_surface(attributes, share), "type": "box"}
        geom |= {"size": fmt(np.multiply(box.half_m, scale)), "quat": fmt(box.quat)}
        geom |= {"pos": fmt(np.subtract(box.pos_m, asset.center_m) * scale)}
        if visual and model.meshes:
            geom |= {"group": "3", "rgba": "0 0 0 0"}
        ET.SubElement(body, "geom", geom)
    for k, mesh in enumerate(model.meshes if visual else ()):
        name = f"{role}_drawn{k}"
        size = fmt(np.multiply(mesh.scale, scale))
        ET.SubElement(assets, "mesh", name=name, file=mesh.file, scale=size, inertia="shell")
        look = {"rgba": fmt(attributes.rgba)}
        if own and mesh.texture is not None:
            ET.SubElement(assets, "texture", name=name, type="2d", file=mesh.texture)
            ET.SubElement(assets, "material", name=name, texture=name, specular="0.2")
            look = {"material": name}
        pos = fmt(np.subtract(mesh.pos_m, asset.center_m) * scale)
        geom = {"type": "mesh", "mesh": name, "pos": pos, "quat": fmt(mesh.quat), "group": "2"}
        geom |= {"contype": "0", "conaffinity": "0", "mass": "0"}
        ET.SubElement(body, "geom", geom | look)


def _add_visual_disc(body: ET.Element, half: Vec3, rgba: str) -> None:
    ET.SubElement(
        body,
        "geom",
        type="cylinder",
        size=fmt((half[0] * DISC_RADIUS, half[2] * 1.02)),
        rgba=rgba,
        contype="0",
        conaffinity="0",
        mass="0",
        group="2",
    )


def _add_parts(
    body: ET.Element,
    parts: Sequence[Part],
    attributes: ObjectAttributes,
    mass_kg: float,
    origin: Vec3,
    prefix: str,
) -> None:
    """Add shapes to a body whose origin is `origin` in the asset's frame (already scaled)."""
    total = sum(_volume(part) for part in parts if not part.visual)
    for k, part in enumerate(parts):
        half = scaled(part.half_m, attributes.scale)
        pos = np.subtract(scaled(part.pos_m, attributes.scale), origin)
        share = 0.0 if part.visual else mass_kg * _volume(part) / total
        geom = {"name": f"{prefix}_geom{k}", **_surface(attributes, share, part.tone)}
        geom |= {"type": part.shape, "pos": fmt(pos)}
        if part.shape == "cylinder":
            geom["size"] = fmt((half[0], half[2]))
            if part.axis != "z":
                geom["quat"] = _AXIS_QUAT[part.axis]
        elif part.shape == "sphere":
            geom["size"] = fmt(half[0])
        else:
            geom["size"] = fmt(half)
            if part.yaw or part.pitch:
                geom["quat"] = _box_quat(part)
        if part.visual:
            geom |= {"contype": "0", "conaffinity": "0"}
        if part.hidden:
            geom |= {"group": "3", "rgba": "0 0 0 0"}
        ET.SubElement(body, "geom", geom)


def joint_travel(joint: Joint, scale: float) -> float:
    """Travel from closed to fully open at a scale [m or rad]."""
    return joint.span * scale if joint.kind == "slide" else joint.span


def _add_joint(
    root: ET.Element, base: ET.Element, role: Role, attributes: ObjectAttributes, joint: Joint
) -> None:
    scale = attributes.scale
    weight = {"gravcomp": "1" if joint.balanced else "0"}
    moving = ET.SubElement(base, "body", weight | {"name": moving_body(role)})
    ET.SubElement(
        moving,
        "joint",
        name=f"{role}_joint",
        type=joint.kind,
        axis=fmt(joint.axis),
        pos=fmt(scaled(joint.anchor_m, scale)),
        limited="true",
        range=fmt((0.0, joint_travel(joint, scale))),
        damping=fmt(joint.damping * attributes.damping),
        frictionloss=fmt(joint.stiction),
        solimpfriction="0.99 0.99 0.001",  # sticks rather than creeps under a small force
        armature="0.001",
    )
    mass = 0.8 * joint.moving_mass_kg
    _add_parts(moving, joint.moving, attributes, mass, (0.0, 0.0, 0.0), f"{role}_moving")
    center = scaled(joint.handle_center_m, scale)
    handle = ET.SubElement(moving, "body", weight | {"name": HANDLE_BODY, "pos": fmt(center)})
    _add_parts(handle, joint.handle, attributes, 0.2 * joint.moving_mass_kg, center, HANDLE_BODY)
    contact = root.find("contact")
    if contact is None:
        contact = ET.SubElement(root, "contact")
    for name in (moving_body(role), HANDLE_BODY):
        ET.SubElement(contact, "exclude", body1=role, body2=name)
