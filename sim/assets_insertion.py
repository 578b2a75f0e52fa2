"""Pegs, holes, nuts, posts and bricks: what is stacked, and what goes into or around something.

Nuts break one habit of the catalogue: their origin is the centre of the *hole*, and their half
extents are symmetric about it although the handle sticks out on one side only. Predicates that
compare a nut's position with a post's therefore measure the hole, and footprints err on the wide
side. Everything scales about the origin.

Holes and posts are fixed. The seat of a hole is its floor, that of a post the top of its foot; the
mouth is the block's top or the post's tip. `seat_half_m` is how far the centre of what is in the
hole, or around the post, can be off: a little more than the play of the smallest thing that fits.
"""

from __future__ import annotations

import math

from coda.sim.asset import Asset, Part, Vec3
from coda.sim.scene import ObjectAttributes

HOLE_HALF_M = 0.0215
"""Half width of a square hole, and inner radius of a round one [m]."""
BLOCK_HALF_M: Vec3 = (0.045, 0.045, 0.023)
"""Half extents of a block with a hole [m]."""
FLOOR_M = 0.008
"""Thickness of a hole's floor [m]."""
POST_HALF_M = 0.0095
"""Half width, or radius, of a post [m]."""
FOOT_HALF_M: Vec3 = (0.055, 0.055, 0.003)
"""Half extents of a post's foot: wide enough for a nut to lie flat with its handle [m]."""
POST_TIP_M = 0.038
"""Half of a post's whole height, foot included [m]."""
RING_HALF_M = 0.007
"""Half thickness of a nut's ring [m]."""
NUT_REACH_M = 0.083
"""From the centre of a nut's hole to the end of its handle [m]."""
HANDLE_HALF_M: Vec3 = (0.018, 0.014, 0.018)
"""Half extents of what the gripper takes of a nut's handle [m]: its force grows with the width."""
CAP_HALF_M: Vec3 = (0.010, 0.027, 0.018)
"""Half extents of the cross piece at the handle's end: it brings the balance near the grip [m]."""
_EIGHTH = math.pi / 4


def _octagon(inner: float, outer: float, half_z: float, z: float, tone: float) -> tuple[Part, ...]:
    """Eight walls around an eight-sided hole of inner radius `inner`, flat sides along x and y."""
    middle, wall = 0.5 * (inner + outer), 0.5 * (outer - inner)
    width = outer * math.tan(_EIGHTH / 2)
    return tuple(
        Part(
            shape="box",
            half_m=(wall, width, half_z),
            pos_m=(middle * math.cos(k * _EIGHTH), middle * math.sin(k * _EIGHTH), z),
            yaw=k * _EIGHTH,
            tone=tone,
        )
        for k in range(8)
    )


def _square(inner: float, outer: float, half_z: float, z: float, tone: float) -> tuple[Part, ...]:
    """Four walls around a square hole of half width `inner`."""
    middle, wall = 0.5 * (inner + outer), 0.5 * (outer - inner)
    return (
        Part(shape="box", half_m=(wall, outer, half_z), pos_m=(middle, 0.0, z), tone=tone),
        Part(shape="box", half_m=(wall, outer, half_z), pos_m=(-middle, 0.0, z), tone=tone),
        Part(shape="box", half_m=(inner, wall, half_z), pos_m=(0.0, middle, z), tone=tone),
        Part(shape="box", half_m=(inner, wall, half_z), pos_m=(0.0, -middle, z), tone=tone),
    )


def _hole(name: str, noun: str, walls: tuple[Part, ...]) -> Asset:
    top = BLOCK_HALF_M[2]
    inside = HOLE_HALF_M + 0.002
    floor = Part(
        shape="box",
        half_m=(inside, inside, FLOOR_M / 2),
        pos_m=(0.0, 0.0, FLOOR_M / 2 - top),
        tone=0.35,
    )
    return Asset(
        name=name,
        noun=noun,
        shape="parts",
        half_size_m=BLOCK_HALF_M,
        mass_kg=0.8,
        graspable=False,
        fixed=True,
        parts=(*walls, floor),
        seat_m=FLOOR_M - top,
        seat_half_m=(0.012, 0.012),
        mouth_m=top,
    )


def _post(name: str, noun: str, *, turned: bool) -> Asset:
    half = POST_TIP_M - FOOT_HALF_M[2]
    upright = Part(
        shape="cylinder" if turned else "box",
        half_m=(POST_HALF_M, POST_HALF_M, half),
        pos_m=(0.0, 0.0, POST_TIP_M - half),
    )
    foot = Part(
        shape="box", half_m=FOOT_HALF_M, pos_m=(0.0, 0.0, FOOT_HALF_M[2] - POST_TIP_M), tone=0.6
    )
    return Asset(
        name=name,
        noun=noun,
        shape="parts",
        half_size_m=(FOOT_HALF_M[0], FOOT_HALF_M[1], POST_TIP_M),
        mass_kg=0.8,
        graspable=False,
        fixed=True,
        parts=(foot, upright),
        seat_m=2 * FOOT_HALF_M[2] - POST_TIP_M,
        seat_half_m=(0.013, 0.013),
        mouth_m=POST_TIP_M,
    )


def _nut(
    name: str, noun: str, mass_kg: float, *, inner: float, outer: float, turned: bool = False
) -> Asset:
    half_x, half_z = NUT_REACH_M, HANDLE_HALF_M[2]
    ring = (_octagon if turned else _square)(inner, outer, RING_HALF_M, RING_HALF_M - half_z, 1.0)
    cap = half_x - 2 * CAP_HALF_M[0]
    length = 0.5 * (cap - outer) + 0.001
    handle = Part(
        shape="box",
        half_m=(length, HANDLE_HALF_M[1], half_z),
        pos_m=(cap - length, 0.0, 0.0),
        tone=0.6,
    )
    end = Part(shape="box", half_m=CAP_HALF_M, pos_m=(half_x - CAP_HALF_M[0], 0.0, 0.0), tone=0.4)
    return Asset(
        name=name,
        noun=noun,
        shape="parts",
        half_size_m=(half_x, outer, half_z),
        mass_kg=mass_kg,
        graspable=True,
        parts=(*ring, handle, end),
        grip_m=(cap - HANDLE_HALF_M[0] - 0.001, 0.0, 0.0),
        grip_half_m=HANDLE_HALF_M,
    )


def _peg(name: str, noun: str, half_m: Vec3, mass_kg: float, *, turned: bool = False) -> Asset:
    x, _, z = half_m
    shaft = Part(shape="cylinder" if turned else "box", half_m=half_m)
    band = Part(
        shape=shaft.shape,
        half_m=(x + 0.0004, x + 0.0004, 0.003),
        pos_m=(0.0, 0.0, z - 0.006),
        tone=0.5,
        visual=True,
    )
    return Asset(
        name=name,
        noun=noun,
        shape="parts",
        round=turned,
        half_size_m=half_m,
        mass_kg=mass_kg,
        graspable=True,
        parts=(shaft, band),
        grip_m=(0.0, 0.0, 0.5 * z),
        grip_half_m=(x, x, 0.5 * z),
    )


PEGS: tuple[Asset, ...] = (
    _peg("peg-square", "square peg", (0.0165, 0.0165, 0.040), 0.08),
    _peg("peg-round", "round peg", (0.0165, 0.0165, 0.040), 0.07, turned=True),
    _peg("peg-short", "short peg", (0.0165, 0.0165, 0.032), 0.06),
    _peg("peg-long", "long peg", (0.0155, 0.0155, 0.050), 0.09),
)
"""Stand upright, and are taken near the top."""

HOLES: tuple[Asset, ...] = (
    _hole(
        "hole-square",
        "square hole",
        _square(HOLE_HALF_M, BLOCK_HALF_M[0], BLOCK_HALF_M[2], 0.0, 1.0),
    ),
    _hole(
        "hole-round",
        "round hole",
        _octagon(HOLE_HALF_M, BLOCK_HALF_M[0], BLOCK_HALF_M[2], 0.0, 1.0),
    ),
)
"""A block with a hole from above: its square hole takes every peg, the round one round pegs."""

NUTS: tuple[Asset, ...] = (
    _nut("nut-square", "square nut", 0.07, inner=0.0155, outer=0.027),
    _nut("nut-round", "round nut", 0.06, inner=0.020, outer=0.031, turned=True),
    _nut("nut-large", "large nut", 0.09, inner=0.018, outer=0.030),
)
"""Rings with a handle; the model is robosuite's nut assembly."""

POSTS: tuple[Asset, ...] = (
    _post("post-square", "square post", turned=False),
    _post("post-round", "round post", turned=True),
)
"""An upright on a foot; every nut fits both."""

BRICKS: tuple[Asset, ...] = (
    Asset(
        name="brick",
        noun="brick",
        shape="box",
        half_size_m=(0.027, 0.027, 0.020),
        mass_kg=0.15,
        graspable=True,
    ),
    Asset(
        name="small-cube",
        noun="small cube",
        shape="box",
        half_size_m=(0.018, 0.018, 0.018),
        mass_kg=0.06,
        graspable=True,
    ),
    Asset(
        name="slab",
        noun="slab",
        shape="box",
        half_size_m=(0.032, 0.025, 0.014),
        mass_kg=0.13,
        graspable=True,
    ),
    Asset(
        name="base-block",
        noun="base block",
        shape="box",
        half_size_m=(0.040, 0.040, 0.018),
        mass_kg=0.40,
        graspable=False,
    ),
)
"""Things to stack; a base block is too wide for the gripper and carries a tower."""

INSERTION: tuple[Asset, ...] = (*PEGS, *HOLES, *NUTS, *POSTS, *BRICKS)
"""Assets of the stack-insert family."""


_ROUND = ("peg-round", "post-round", "hole-round", "nut-round")
_PEG_M = {peg.name: peg.half_size_m[0] for peg in PEGS}
_HOLE_M = {hole.name: HOLE_HALF_M for hole in HOLES}
_POST_M = {post.name: POST_HALF_M for post in POSTS}
_NUT_M = {nut.name: nut.parts[0].pos_m[0] - nut.parts[0].half_m[0] for nut in NUTS}


def insertion_play(subject: ObjectAttributes, reference: ObjectAttributes) -> float | None:
    """Room on each side of a peg in a hole, or of a nut around a post, turned parallel [m].

    Negative where it does not fit, None where the two are no such pair.
    """
    if subject.asset in _PEG_M and reference.asset in _HOLE_M:
        shaft, half_m, bore, bore_m = subject, _PEG_M, reference, _HOLE_M
    elif subject.asset in _NUT_M and reference.asset in _POST_M:
        shaft, half_m, bore, bore_m = reference, _POST_M, subject, _NUT_M
    else:
        return None
    square_in_round = bore.asset in _ROUND and shaft.asset not in _ROUND
    half = half_m[shaft.asset] * shaft.scale * (math.sqrt(2) if square_in_round else 1.0)
    return bore_m[bore.asset] * bore.scale - half
