"""What an asset is: shapes, the part the gripper takes, the seat it offers, and its joint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Vec3 = tuple[float, float, float]

FINGER_OPENING_M = 0.08
"""Widest opening of the Panda gripper [m]."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One shape of an asset at scale 1, in the asset's frame."""

    shape: Literal["box", "cylinder", "sphere"]
    half_m: Vec3
    """Half extents; a cylinder: (radius, radius, half length) along `axis`; a sphere: (r, r, r)."""
    pos_m: Vec3 = (0.0, 0.0, 0.0)
    axis: Literal["x", "y", "z"] = "z"
    """Direction of a cylinder's length."""
    yaw: float = 0.0
    """Turn about the vertical [rad]."""
    pitch: float = 0.0
    """Tilt of a box about its own y, before `yaw`: its top leans along its own x [rad]."""
    tone: float = 1.0
    """Factor on the object's colour, so that parts can be told apart."""
    visual: bool = False
    """Drawn only: collides with nothing."""
    hidden: bool = False
    """Collides only: is not drawn."""


@dataclass(frozen=True, kw_only=True)
class Joint:
    """How the moving part of a fixture moves, at scale 1, in the asset's frame."""

    kind: Literal["slide", "hinge"]
    axis: Vec3
    """Direction of motion (slide), or axis of turning (hinge), for opening."""
    anchor_m: Vec3 = (0.0, 0.0, 0.0)
    span: float
    """Travel from closed to fully open [m or rad]; a slide's scales with the object."""
    damping: float
    """Damping at `ObjectAttributes.damping` = 1 [N s/m or N m s/rad]."""
    stiction: float = 0.0
    """Dry friction of the joint [N or N m]."""
    balanced: bool = False
    """A spring carries the moving part's weight, as in a good lid's hinge."""
    moving: tuple[Part, ...]
    """Shapes that move with it, where they are when closed."""
    moving_mass_kg: float = 0.3
    handle: tuple[Part, ...]
    """Shapes of the handle, which moves too."""
    handle_center_m: Vec3
    """Centre of the handle's graspable part when closed."""
    handle_half_m: Vec3
    """Half extents of that part; the grasp may close across its x or its y where that fits."""


@dataclass(frozen=True, kw_only=True)
class Asset:
    """One asset at scale 1. Its frame's origin is the centre of its bounding box (when closed)."""

    name: str
    noun: str
    """How an instruction names it."""
    shape: Literal["box", "cylinder", "disc", "mesh", "parts", "mjcf"]
    """A disc looks round and collides as the box of the same area (steadier contacts)."""
    half_size_m: Vec3
    """Half extents of the bounding box along the object's own axes [m]."""
    mass_kg: float
    """Default mass [kg]."""
    graspable: bool
    fixed: bool = False
    """Part of the scene's furniture: does not move."""
    parts: tuple[Part, ...] = ()
    """Shapes of an asset whose `shape` is ``parts``."""
    robosuite_class: str | None = None
    """Class in `robosuite.models.objects` whose mesh is used."""
    mjcf_file: str | None = None
    """Absolute path of the MJCF file of an asset whose `shape` is ``mjcf``."""
    mjcf_up: Literal["y", "z"] = "z"
    """Axis of that file's frame that points up; the asset's frame is the file's stood upright."""
    own_rgba: tuple[float, float, float, float] | None = None
    """Colour that stands for the file's own textures; they are drawn where it is asked for."""
    center_m: Vec3 = (0.0, 0.0, 0.0)
    """Centre of the bounding box in the mesh's or the file's frame, at scale 1 [m]."""
    grip_m: Vec3 = (0.0, 0.0, 0.0)
    """Centre of the part that the gripper takes, from the origin."""
    grip_half_m: Vec3 | None = None
    """Half extents of that part; None for the whole object."""
    seat_m: float | None = None
    """Height over the origin of the surface that takes things up; None for the top."""
    seat_half_m: tuple[float, float] | None = None
    """Half extents of that surface; None for the whole footprint."""
    mouth_m: float | None = None
    """Height over the origin of the rim; None for the top."""
    joint: Joint | None = None
    seat_moves: bool = False
    """The seat belongs to the moving part (a drawer); `seat_center_m` then says where."""
    seat_center_m: Vec3 = (0.0, 0.0, 0.0)
    """Centre of the moving container when closed; its `seat_m` and `mouth_m` are from there."""
    seat_box_half_m: Vec3 = (0.0, 0.0, 0.0)
    """Half extents of the moving container."""
    round: bool = False
    """The footprint is a circle (for placement)."""
