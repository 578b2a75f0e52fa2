"""Where a scene's things are in its compiled model, and what about them never changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from coda.sim import kinematics
from coda.sim.asset import Asset, Vec3
from coda.sim.assets import ASSETS, half_size, scaled
from coda.sim.frame import N_ROLES, Array
from coda.sim.mjcf_objects import GAP_M, joint_travel
from coda.sim.mjcf_touch import bound_roles, fixture_role, touch_plan
from coda.sim.roles import ROLES, Role
from coda.sim.scene import ObjectAttributes, Pose, Scene

_KIND = {"slide": 1.0, "hinge": 2.0}
_GOAL = {"open": 1.0, "closed": 0.0}


@dataclass(frozen=True)
class Moving:
    """A role that moves with the fixture's joint: its pose when closed."""

    role: int
    pos: Array
    rot: Array


@dataclass(frozen=True)
class Layout:
    """Where a scene's things are. Columns count within a state: time, qpos, qvel."""

    free: tuple[tuple[int, int, int], ...]
    """Role index, first qpos column and first qvel column of every free body."""
    joint_columns: tuple[int, ...]
    """Columns of the fixture joint's position and velocity; empty without a fixture."""
    moving: tuple[Moving, ...]
    touches: tuple[tuple[str, int, int], ...]
    """Contact sensors in the order of the sensor data."""
    constants: Mapping[str, Array]
    """Fields of a frame that do not change."""
    start: Array
    """The state before the arm is placed, (S,)."""
    bodies: Mapping[Role, int]
    """Body id of every role."""


def base_pose(asset: Asset, attributes: ObjectAttributes, pose: Pose) -> tuple[Array, Array]:
    """World position (3,) and rotation (3, 3) at which an object starts."""
    half = half_size(attributes)
    pos = np.array([*pose.xy, half[2] + (0.0 if asset.fixed else GAP_M)])
    return pos, kinematics.exp_rot(np.array([[0.0, 0.0, pose.yaw]]))[0]


def layout(model: mujoco.MjModel, scene: Scene) -> Layout:
    """Find a scene's roles in its compiled model."""
    columns = 1 + model.nq
    free = []
    for role in scene.roles:
        if not ASSETS[scene.alpha.objects[role].asset].fixed:
            joint = model.joint(f"{role}_joint")
            free.append(
                (ROLES.index(role), 1 + int(joint.qposadr[0]), columns + int(joint.dofadr[0]))
            )
    start = np.zeros(1 + model.nq + model.nv)
    start[1 : 1 + model.nq] = model.qpos0
    fixture = fixture_role(scene)
    joint_columns: tuple[int, ...] = ()
    moving: tuple[Moving, ...] = ()
    constants = _constants(scene)
    if fixture is not None:
        joint = model.joint(f"{fixture}_joint")
        joint_columns = (1 + int(joint.qposadr[0]), columns + int(joint.dofadr[0]))
        start[joint_columns[0]] = scene.tau.opening * float(constants["joint_span"])
        moving = _moving(scene, fixture)
    return Layout(
        free=tuple(free),
        joint_columns=joint_columns,
        moving=moving,
        touches=tuple(touch_plan(scene)),
        constants=constants,
        start=start,
        bodies={role: int(model.body(role).id) for role in bound_roles(scene)},
    )


def _moving(scene: Scene, fixture: Role) -> tuple[Moving, ...]:
    attributes = scene.alpha.objects[fixture]
    asset = ASSETS[attributes.asset]
    assert asset.joint is not None
    pos, rot = base_pose(asset, attributes, scene.sigma.poses[fixture])

    def at(role: Role, center: Vec3) -> Moving:
        return Moving(ROLES.index(role), pos + rot @ scaled(center, attributes.scale), rot)

    handle = at("handle", asset.joint.handle_center_m)
    return (handle, at(fixture, asset.seat_center_m)) if asset.seat_moves else (handle,)


def _constants(scene: Scene) -> dict[str, Array]:
    """Fields of a frame that never change, and the poses of what does not move."""
    shapes = {"pos": (3,), "rot": (3, 3), "half_size": (3,), "grip": (3,), "grip_half": (3,)}
    shapes |= {"seat": (), "seat_half": (2,), "mouth": (), "present": ()}
    out: dict[str, Array] = {k: np.zeros((N_ROLES, *shape)) for k, shape in shapes.items()}
    out |= {"joint_span": np.ones(()), "joint_goal": np.zeros(()), "joint_kind": np.zeros(())}
    for role in scene.roles:
        i, attributes = ROLES.index(role), scene.alpha.objects[role]
        asset, scale = ASSETS[attributes.asset], attributes.scale
        out["pos"][i], out["rot"][i] = base_pose(asset, attributes, scene.sigma.poses[role])
        out["present"][i] = 1.0
        half = asset.seat_box_half_m if asset.seat_moves else asset.half_size_m
        out["half_size"][i] = np.multiply(half, scale)
        out["grip"][i] = np.multiply(asset.grip_m, scale)
        if not asset.fixed:
            out["grip_half"][i] = np.multiply(asset.grip_half_m or asset.half_size_m, scale)
        out["seat"][i] = scale * (half[2] if asset.seat_m is None else asset.seat_m)
        out["mouth"][i] = scale * (half[2] if asset.mouth_m is None else asset.mouth_m)
        out["seat_half"][i] = np.multiply(asset.seat_half_m or half[:2], scale)
        if asset.joint is not None:
            _joint_constants(out, scene, role)
    return out


def _joint_constants(out: dict[str, Array], scene: Scene, fixture: Role) -> None:
    attributes = scene.alpha.objects[fixture]
    asset = ASSETS[attributes.asset]
    joint = asset.joint
    assert joint is not None
    pos, rot = base_pose(asset, attributes, scene.sigma.poses[fixture])
    handle = ROLES.index("handle")
    half = np.multiply(joint.handle_half_m, attributes.scale)
    out["present"][handle] = 1.0
    out["half_size"][handle] = out["grip_half"][handle] = half
    out["seat"][handle] = out["mouth"][handle] = half[2]
    out["joint_kind"] = np.array(_KIND[joint.kind])
    out["joint_span"] = np.array(joint_travel(joint, attributes.scale))
    out["joint_axis"] = rot @ np.asarray(joint.axis)
    out["joint_anchor"] = pos + rot @ scaled(joint.anchor_m, attributes.scale)
    out["joint_goal"] = np.array(_GOAL.get(scene.tau.goal.relation, 1.0))
