"""Success of a scene's task read from MuJoCo's own data, without the predicates under test.

Geometry is that of the compiled geoms (their exact lowest points, walls and floors found by rays),
contacts are MuJoCo's, velocities are those of bodies. Only numbers that define a task (how deep,
how far open, how slow) are written down here a second time.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from coda.sim.assets import ASSETS
from coda.sim.engine import CONTROL_HZ, BatchSim, substeps
from coda.sim.frame import Array
from coda.sim.mjcf_touch import fixture_role
from coda.sim.scene import Scene

ON_M, INSIDE_M, INSERTED_M = 0.008, 0.02, 0.015
OPEN_SHARE, CLOSED_SHARE = 0.15, 0.06
SPEED_M_S, ARM_M = 0.05, 0.03
TILT_RAD = 0.35
CLEAR_M, AWAY_M = 0.004, 0.03
FINGERS = ("gripper0_leftfinger", "gripper0_rightfinger")


class Truth:
    """What is true of one scene of a batch after a control step.

    Args:
        sim: The batch, after the step.
        i: The scene.
        before: Its state before the step. The step is made again by `mujoco.mj_step` alone, whose
            contacts are then those of its last physics step, as the engine's are.
    """

    def __init__(self, sim: BatchSim, i: int, before: Array) -> None:
        self.scene: Scene = sim.scenes[i]
        self.m = sim.models[i]
        self.d = sim.data(i)
        again = mujoco.MjData(self.m)
        mujoco.mj_setState(self.m, again, before, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        mujoco.mj_kinematics(self.m, again)
        self.pos, self.quat = again.xpos.copy(), again.xquat.copy()  # before the step
        again.ctrl[:] = self.d.ctrl
        mujoco.mj_step(self.m, again, substeps(CONTROL_HZ, self.m.opt.timestep))
        assert np.array_equal(again.qpos, self.d.qpos), "the engine differs from mj_step"
        self.contacts = [
            (int(self.m.geom_bodyid[a]), int(self.m.geom_bodyid[b]))
            for a, b in (again.contact.geom if again.ncon else ())
        ]

    def success(self) -> bool:
        """Whether the task is done and everything is let go and at rest, at this instant."""
        relation = self.scene.tau.goal.relation
        if relation in ("open", "closed"):
            return self.joint_done(relation) and self.at_rest("handle") and self.free("handle")
        moved = ["target"]
        done = {"on": self.on, "inside": self.inside, "inserted": self.inserted}[relation]
        ok = done("target", "receptacle")
        if "support" in self.scene.roles:
            ok = ok and self.on("receptacle", "support")
            moved.append("receptacle")
        return ok and all(self.at_rest(role) and self.free(role) for role in moved)

    # geometry

    def subtree(self, name: str) -> set[int]:
        """A body and what hangs on it."""
        own = {int(self.m.body(name).id)}
        for body in range(self.m.nbody):
            if int(self.m.body_parentid[body]) in own:
                own.add(body)
        return own

    def geoms(self, name: str) -> list[int]:
        """Colliding geoms of a body and what hangs on it."""
        bodies = self.subtree(name)
        return [
            g
            for g in range(self.m.ngeom)
            if int(self.m.geom_bodyid[g]) in bodies
            and (self.m.geom_contype[g] or self.m.geom_conaffinity[g])
        ]

    def extent(self, geoms: list[int], direction: Any) -> float:
        """Furthest point of geoms along a unit direction [m], exact for every shape."""
        return max(self._support(g, np.asarray(direction, dtype=np.float64)) for g in geoms)

    def _support(self, g: int, direction: Array) -> float:
        kind, size = int(self.m.geom_type[g]), self.m.geom_size[g]
        local = self.d.geom_xmat[g].reshape(3, 3).T @ direction
        center = float(self.d.geom_xpos[g] @ direction)
        if kind == mujoco.mjtGeom.mjGEOM_BOX:
            return center + float(np.abs(local) @ size)
        if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
            return center + float(size[0] * np.hypot(local[0], local[1]) + size[1] * abs(local[2]))
        if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
            return center + float(size[0])
        assert kind == mujoco.mjtGeom.mjGEOM_MESH, kind
        mesh = int(self.m.geom_dataid[g])
        first, count = int(self.m.mesh_vertadr[mesh]), int(self.m.mesh_vertnum[mesh])
        return center + float((self.m.mesh_vert[first : first + count] @ local).max())

    def bottom(self, name: str) -> float:
        """Height of a body's lowest point [m]."""
        return -self.extent(self.geoms(name), (0.0, 0.0, -1.0))

    def top(self, name: str) -> float:
        """Height of a body's highest point [m]."""
        return self.extent(self.geoms(name), (0.0, 0.0, 1.0))

    def center(self, name: str) -> Array:
        """The origin of a body (3,) [m]: the centre of its box, or of a nut's hole."""
        return np.array(self.d.body(name).xpos, dtype=np.float64)

    def half(self, name: str) -> Array:
        """Half extents (3,) [m] of a body's colliding geoms along its own axes."""
        axes = self.d.body(name).xmat.reshape(3, 3).T
        geoms = self.geoms(name)
        spans = [self.extent(geoms, axis) + self.extent(geoms, -axis) for axis in axes]
        return 0.5 * np.array(spans)

    def surrounded(self, point: Array, name: str, plane: Array | None = None) -> bool:
        """Whether a point in free space has a body's walls on every side.

        Sides are horizontal, or lie in the plane of a rotation's (3, 3) first two axes.
        """
        geoms, turn = self.geoms(name), np.eye(3) if plane is None else plane
        sides = [turn @ (np.cos(a), np.sin(a), 0.0) for a in np.arange(8) * np.pi / 4]
        if any(self._holds(g, point) for g in geoms):
            return False
        return all(np.isfinite(self._ray(point, side, geoms)) for side in sides)

    def _holds(self, g: int, point: Array) -> bool:
        """Whether a point is within a box."""
        local = self.d.geom_xmat[g].reshape(3, 3).T @ (point - self.d.geom_xpos[g])
        box = int(self.m.geom_type[g]) == mujoco.mjtGeom.mjGEOM_BOX
        return box and bool((np.abs(local) < self.m.geom_size[g]).all())

    def _ray(self, start: Array, direction: Array, geoms: list[int]) -> float:
        """Distance from a point to the nearest of some geoms along a direction [m], or inf."""
        hits = [
            mujoco.mju_rayGeom(
                self.d.geom_xpos[g], self.d.geom_xmat[g], self.m.geom_size[g], start, direction,
                int(self.m.geom_type[g]),
            )
            for g in geoms
        ]  # fmt: skip
        return min((hit for hit in hits if hit >= 0.0), default=np.inf)

    # relations

    def touching(self, first: set[int], second: set[int]) -> bool:
        """Whether any of MuJoCo's contacts is between two sets of bodies."""
        return any(
            (a in first and b in second) or (a in second and b in first) for a, b in self.contacts
        )

    def on(self, subject: str, reference: str) -> bool:
        """Rests on top: touching, centred over it, at its height along its own vertical axis."""
        a, b = self.center(subject), self.center(reference)
        beside = float(np.hypot(*(a - b)[:2]))
        up = self.d.body(reference).xmat.reshape(3, 3)[:, 2]
        gap = -self.extent(self.geoms(subject), -up) - self.extent(self.geoms(reference), up)
        return (
            self.touching(self.subtree(subject), self.subtree(reference))
            and beside <= float(self.half(reference)[:2].min())
            and abs(gap) <= ON_M
        )

    def inside(self, subject: str, reference: str) -> bool:
        """Over the floor, between the walls, and clearly below the rim."""
        fixture = fixture_role(self.scene)
        name = f"{reference}_moving" if fixture == reference else reference
        point = self.center(subject)
        rim, walls = self._tray_rim(name), self.geoms(name)
        if not np.isfinite(self._ray(point, np.array([0.0, 0.0, -1.0]), walls)):
            return False
        low = max(self.bottom(subject), rim - 0.04)
        heights = np.linspace(low + 0.002, rim - 0.002, 8)
        between = any(self.surrounded(np.array([*point[:2], z]), name) for z in heights)
        return between and rim - self.bottom(subject) >= INSIDE_M

    def _tray_rim(self, name: str) -> float:
        """Height of a container's rim; a drawer's front stands over the rim of its tray."""
        if not name.endswith("_moving"):
            return self.top(name)
        record = self.scene.alpha.objects["receptacle"]
        return self.bottom(name) + 2.0 * ASSETS[record.asset].seat_box_half_m[2] * record.scale

    def inserted(self, subject: str, reference: str) -> bool:
        """A peg deep in its hole, or a nut deep around its post, and upright."""
        body = self.d.body(subject)
        axis = body.xmat.reshape(3, 3)[:, 2]
        if np.arccos(np.clip(axis[2], -1.0, 1.0)) > TILT_RAD:
            return False
        foot = self.center(subject) - axis * self.half(subject)[2]
        if self.top(reference) - foot[2] < INSERTED_M:
            return False
        if self.scene.alpha.objects["target"].asset.startswith("nut"):
            post = self.center(reference)  # its axis where that meets the middle of the ring
            ring = foot + 0.004 * axis
            post[2] = ring[2] - float((post - ring)[:2] @ axis[:2]) / axis[2]
            return self.surrounded(post, subject, body.xmat.reshape(3, 3))
        return self.surrounded(foot + np.array([0.0, 0.0, 0.006]), reference)  # over its floor

    def joint_done(self, relation: str) -> bool:
        """The joint's share of its range is near the goal's end."""
        joint = self.m.joint(f"{fixture_role(self.scene)}_joint")
        low, high = joint.range
        share = (float(self.d.qpos[joint.qposadr[0]]) - low) / (high - low)
        done = share >= 1 - OPEN_SHARE if relation == "open" else share <= CLOSED_SHARE
        return bool(done)

    # rest and release

    def at_rest(self, name: str) -> bool:
        """Slow over the control step, turning included."""
        body, turn = int(self.m.body(name).id), np.zeros(3)
        mujoco.mju_subQuat(turn, self.d.xquat[body], self.quat[body])
        moved = float(np.linalg.norm(self.d.xpos[body] - self.pos[body]))
        return (moved + ARM_M * float(np.linalg.norm(turn))) * CONTROL_HZ <= SPEED_M_S

    def free(self, name: str) -> bool:
        """No finger touches it, and the open fingers have room, or the hand is away."""
        fingers = set().union(*(self.subtree(finger) for finger in FINGERS))
        if self.touching(self.subtree(name), fingers):
            return False
        center, half = self._grip(name)
        gap = sum(abs(float(self.d.joint(f"gripper0_finger_joint{k}").qpos[0])) for k in (1, 2))
        if gap - 2.0 * float(half[:2].min()) >= CLEAR_M:
            return True
        up = float(np.abs(self.d.body(name).xmat.reshape(3, 3)[2]) @ half)
        point = center + np.array([0.0, 0.0, max(0.0, up - 0.025)])
        return float(np.linalg.norm(self.d.site("grip").xpos - point)) >= AWAY_M

    def _grip(self, name: str) -> tuple[Array, Array]:
        """Centre and half extents of the part of a body that the gripper takes."""
        rot = self.d.body(name).xmat.reshape(3, 3)
        if name == "handle":
            fixture = fixture_role(self.scene)
            assert fixture is not None
            record = self.scene.alpha.objects[fixture]
            joint = ASSETS[record.asset].joint
            assert joint is not None
            return self.center(name), np.array(joint.handle_half_m) * record.scale
        record = self.scene.alpha.objects["target" if name == "target" else "receptacle"]
        asset = ASSETS[record.asset]
        half = np.array(asset.grip_half_m or asset.half_size_m) * record.scale
        return self.center(name) + rot @ np.array(asset.grip_m) * record.scale, half
