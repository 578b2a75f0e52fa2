"""What counts as inserted and stacked: constructed states, and what really comes to rest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coda.sim.assets_insertion import (
    NUTS,
    RING_HALF_M,
)
from coda.sim.engine import BatchSim
from coda.sim.frame import SimFrame
from coda.sim.predicates import evaluate
from coda.sim.terms import PredicateTerm
from tests.insertion_world import (
    INSERTED,
    ON,
    RECEPTACLE,
    TARGET,
    Array,
    put,
    rest,
    seed,
    tilted,
    with_assets,
)


def margin(frame: SimFrame, term: PredicateTerm = INSERTED) -> float:
    return float(evaluate(term, frame)[1][0])


# what counts as inserted


def in_hole(depth_m: float, aside_m: float = 0.0, tilt: float = 0.0) -> SimFrame:
    """The seed's peg with the lower end of its axis `depth_m` below the mouth of the hole."""
    sim = BatchSim([seed("peg-in-hole")])
    frame = sim.reset()
    mouth = frame.pos[0, RECEPTACLE] + [aside_m, 0.0, frame.mouth[0, RECEPTACLE]]
    lift = frame.half_size[0, TARGET, 2] * math.cos(tilt) - depth_m
    return put(sim, 0, "target", np.add(mouth, (0.0, 0.0, lift)), tilted(tilt))


def test_depth_decides_whether_a_peg_is_inserted() -> None:
    assert margin(in_hole(0.0155)) == pytest.approx(0.0005, abs=1e-6)
    assert margin(in_hole(0.0145)) == pytest.approx(-0.0005, abs=1e-6)
    assert margin(in_hole(0.0)) < 0, "on the rim"
    half_in = INSERTED.model_copy(update={"limit": 0.02})
    assert margin(in_hole(0.018), half_in) < 0
    assert margin(in_hole(0.022), half_in) > 0


def test_a_peg_beside_the_hole_is_not_inserted_however_low() -> None:
    clearance = float(in_hole(0.03).seat_half[0, RECEPTACLE, 0])
    assert margin(in_hole(0.03, aside_m=clearance - 0.001)) > 0
    assert margin(in_hole(0.03, aside_m=clearance + 0.001)) < 0
    assert margin(in_hole(0.046, aside_m=0.08)) < 0, "on the table"


def test_a_tilted_peg_is_not_inserted() -> None:
    assert margin(in_hole(0.03, tilt=0.34)) > 0
    assert margin(in_hole(0.03, tilt=0.36)) < 0


def on_post(over_seat_m: float, tilt: float = 0.0, aside_m: float = 0.0) -> SimFrame:
    """The seed's nut with its underside `over_seat_m` over the foot of the post."""
    sim = BatchSim([seed("nut-on-peg")])
    frame = sim.reset()
    seat = frame.pos[0, RECEPTACLE] + [aside_m, 0.0, frame.seat[0, RECEPTACLE]]
    return put(
        sim, 0, "target", np.add(seat, (0.0, 0.0, over_seat_m + frame.half_size[0, TARGET, 2])),
        tilted(tilt, math.pi / 2),
    )  # fmt: skip


def test_a_nut_counts_once_it_is_below_the_tip() -> None:
    frame = on_post(0.0)
    length = float(frame.mouth[0, RECEPTACLE] - frame.seat[0, RECEPTACLE])
    assert margin(frame) > 0
    assert margin(on_post(length - 0.016)) > 0
    assert margin(on_post(length - 0.014)) < 0
    assert margin(on_post(length)) < 0, "on the tip"


def test_a_nut_that_hangs_tilted_on_the_tip_is_not_inserted() -> None:
    length = 0.07
    for tilt in (0.4, 0.7, 1.0):
        frame = on_post(length - 0.01, tilt=tilt)
        assert margin(frame) < 0, tilt
    assert margin(on_post(0.0, aside_m=0.05)) < 0, "on the foot, beside the post"


# real settles


def peg_states(count: int) -> tuple[BatchSim, Array]:
    """Pegs over the block at random places, turns and tilts; true where it stands in the hole."""
    rng = np.random.default_rng(3)
    sim = BatchSim([seed("peg-in-hole")] * count)
    frame = sim.reset()
    mouth = frame.pos[0, RECEPTACLE] + [0.0, 0.0, frame.mouth[0, RECEPTACLE]]
    for k in range(count):
        spread = 0.004 if k % 2 else 0.03
        off = rng.uniform(-spread, spread, 2)
        lift = frame.half_size[0, TARGET, 2] + rng.uniform(-0.035 if k % 2 else 0.003, 0.02)
        tilt = rng.uniform(0.0, 0.03 if k % 2 else 0.6)
        put(
            sim,
            k,
            "target",
            np.add(mouth, (*off, lift)),
            tilted(tilt, rng.uniform(-math.pi, math.pi)),
        )
    return sim, mouth


def test_settled_pegs_are_told_apart_without_an_error() -> None:
    sim, mouth = peg_states(250)
    frame = rest(sim, 48)
    # independent of the predicate: within the block's outline only the hole lets the lower end
    # under the mouth; a few lean in it, jammed
    bottom = frame.pos[:, TARGET] - frame.rot[:, TARGET, :, 2] * frame.half_size[:, TARGET, 2:3]
    inside = np.abs(bottom[:, :2] - mouth[:2]).max(axis=1) < 0.03
    stands = frame.rot[:, TARGET, 2, 2] > math.cos(0.1)
    truth = inside & (bottom[:, 2] < mouth[2] - 0.015) & stands
    said = evaluate(INSERTED, frame)[0]
    assert 100 < int(truth.sum()) < 150
    assert np.array_equal(said, truth)
    still = evaluate(PredicateTerm(name="settled"), frame)[0]
    assert np.array_equal(sim.verified_now(), truth & still)


def nut_states(count: int) -> tuple[BatchSim, Array, Array]:
    """Nuts over or around the post at random places and tilts; the post's foot and tip."""
    rng = np.random.default_rng(5)
    sim = BatchSim([seed("nut-on-peg")] * count)
    frame = sim.reset()
    base = frame.pos[0, RECEPTACLE]
    tip = np.add(base, (0.0, 0.0, frame.mouth[0, RECEPTACLE]))
    half_z = frame.half_size[0, TARGET, 2]
    for k in range(count):
        around = k % 2 == 1
        off = rng.uniform(-1, 1, 2) * (0.003 if around else 0.03)
        lift = half_z + rng.uniform(-0.05, 0.0) if around else half_z + rng.uniform(0.0, 0.03)
        angle, axis = rng.uniform(0.0, 0.03 if around else 0.7), rng.uniform(-math.pi, math.pi)
        put(sim, k, "target", np.add(tip, (*off, lift)), tilted(angle, axis))
    return sim, np.add(base, (0.0, 0.0, frame.seat[0, RECEPTACLE])), tip


def test_settled_nuts_are_told_apart_without_an_error() -> None:
    sim, foot, tip = nut_states(200)
    frame = rest(sim, 72)
    # independent of the predicate: where the post's axis goes through the plane of the ring
    rot, pos = frame.rot[:, TARGET], frame.pos[:, TARGET]
    low, high = ((rot.transpose(0, 2, 1) @ (end - pos)[:, :, None])[:, :, 0] for end in (foot, tip))
    ring = RING_HALF_M - frame.half_size[0, TARGET, 2]
    share = (ring - low[:, 2]) / (high[:, 2] - low[:, 2])
    through = low + share[:, None] * (high - low)
    threaded = (share > 0) & (share < 1) & (np.abs(through[:, :2]).max(axis=1) < 0.0155)
    stands = rot[:, 2, 2] > math.cos(0.1)
    rests = evaluate(PredicateTerm(name="settled", limit=0.02), frame)[0]
    said = evaluate(INSERTED, frame)[0]
    assert 80 < int((said & rests).sum()) < 160
    assert np.array_equal(said[rests], (threaded & stands)[rests])
    assert (threaded & ~stands & rests).any(), "some hang tilted on the tip"


def test_settled_blocks_are_told_apart_without_an_error() -> None:
    count, rng = 200, np.random.default_rng(11)
    sim = BatchSim([seed("stack-two")] * count)
    frame = sim.reset()
    below, half = frame.pos[0, RECEPTACLE], frame.half_size[0]
    for k in range(count):
        off = rng.uniform(-0.05, 0.05, 2)
        lift = half[RECEPTACLE, 2] + 1.5 * half[TARGET, 2] + rng.uniform(0.0, 0.01)
        angle, axis = rng.uniform(0.0, 0.4), rng.uniform(-math.pi, math.pi)
        put(sim, k, "target", np.add(below, (*off, lift)), tilted(angle, axis))
    frame = rest(sim, 48)
    # independent of the predicate: it rests, and on nothing but the brick
    rests = evaluate(PredicateTerm(name="settled", limit=0.02), frame)[0]
    carried = rests & (frame.touch[:, TARGET, RECEPTACLE] > 0) & (frame.touch_table[:, TARGET] == 0)
    aside = np.linalg.norm((frame.pos[:, TARGET] - frame.pos[:, RECEPTACLE])[:, :2], axis=1)
    said = evaluate(ON, frame)[0] & rests
    assert 30 < int(said.sum()) < 160
    assert not (said & ~carried).any()
    # centres over a corner of the brick, outside its inscribed circle, do not count
    assert np.array_equal(said, carried & (aside <= half[RECEPTACLE, :2].min()))


def test_a_nut_dropped_over_the_post_lies_flat_on_its_foot() -> None:
    scenes = [with_assets(seed("nut-on-peg"), target=nut.name) for nut in NUTS]
    sim = BatchSim(scenes)
    frame = sim.reset()
    for k in range(sim.batch):
        tip = frame.pos[k, RECEPTACLE] + [0.0, 0.0, frame.mouth[k, RECEPTACLE]]
        put(sim, k, "target", np.add(tip, (0.001, 0.001, 0.0)), (1.0, 0.0, 0.0, 0.0))
    frame = rest(sim, 40)
    assert np.all(frame.rot[:, TARGET, 2, 2] > 0.995)
    assert sim.verified_now().all()


def overhanging(share: float) -> SimFrame:
    """The seed's cube let go on the brick, its centre `share` of the way to the brick's edge."""
    sim = BatchSim([seed("stack-two")])
    frame = sim.reset()
    below = frame.pos[0, RECEPTACLE]
    half = frame.half_size[0]
    up = half[RECEPTACLE, 2] + half[TARGET, 2] + 0.0005
    put(
        sim,
        0,
        "target",
        np.add(below, (share * half[RECEPTACLE, 0], 0.0, up)),
        (1.0, 0.0, 0.0, 0.0),
    )
    return rest(sim)


def test_a_block_stays_on_top_until_it_overhangs_by_half() -> None:
    assert evaluate(ON, overhanging(0.0))[0][0]
    assert evaluate(ON, overhanging(0.9))[0][0]
    assert not evaluate(ON, overhanging(1.1))[0][0], "it falls off"
