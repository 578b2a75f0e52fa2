"""Stacking and insertion: what counts as inserted, real settles, towers, and the planner."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from coda.sim.asset import Asset
from coda.sim.assets import ASSETS
from coda.sim.assets_insertion import (
    HOLE_HALF_M,
    HOLES,
    INSERTION,
    NUTS,
    PEGS,
    POST_HALF_M,
    POSTS,
    RING_HALF_M,
)
from coda.sim.engine import ACTION_DIM, CHUNK, BatchSim
from coda.sim.families import family, task_of
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import evaluate, holds
from coda.sim.roles import ROLES, Role
from coda.sim.rollout import run_episodes, run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.scene import Pose, Scene
from coda.sim.splits import Splits
from coda.sim.terms import PredicateTerm

FAMILY = family("stack-insert")
TASKS = tuple(FAMILY.tasks)
INSERTED = PredicateTerm(name="inserted", reference="receptacle")
ON = PredicateTerm(name="on", reference="receptacle")
TARGET, RECEPTACLE = ROLES.index("target"), ROLES.index("receptacle")
Array = npt.NDArray[np.float64]


def seed(task: str) -> Scene:
    return FAMILY.tasks[task].seed


def with_assets(scene: Scene, scale: float = 1.0, **assets: str) -> Scene:
    objects = dict(scene.alpha.objects)
    for role, name in assets.items():
        key: Role = "receptacle" if role == "receptacle" else "target"
        objects[key] = objects[key].model_copy(
            update={"asset": name, "mass_kg": ASSETS[name].mass_kg}
        )
    objects["target"] = objects["target"].model_copy(update={"scale": scale})
    return scene.model_copy(update={"alpha": scene.alpha.model_copy(update={"objects": objects})})


def moved(scene: Scene, **poses: tuple[float, float, float]) -> Scene:
    """A scene with other poses: x, y [m] and yaw [rad]."""
    held = dict(scene.sigma.poses)
    for role, (x, y, yaw) in poses.items():
        key = next(r for r in ROLES if r == role)
        held[key] = Pose(xy=(x, y), yaw=yaw)
    return scene.model_copy(update={"sigma": scene.sigma.model_copy(update={"poses": held})})


def put(
    sim: BatchSim, index: int, role: Role, pos: npt.ArrayLike, quat: Sequence[float]
) -> SimFrame:
    """Put a free object at a pose, at rest."""
    state = sim.state(index)
    free = sim.layout(index).free
    column, speed = next((q, v) for i, q, v in free if i == ROLES.index(role))
    state[column : column + 3] = pos
    state[column + 3 : column + 7] = quat
    state[speed : speed + 6] = 0.0
    return sim.set_state(index, state)


def tilted(angle: float, axis: float = 0.0) -> tuple[float, float, float, float]:
    """A turn by `angle` about a horizontal axis at heading `axis`."""
    s = math.sin(angle / 2)
    return (math.cos(angle / 2), s * math.cos(axis), s * math.sin(axis), 0.0)


def rest(sim: BatchSim, steps: int = 24) -> SimFrame:
    """Let objects come to rest with the arm still and the fingers open."""
    still = np.zeros((sim.batch, CHUNK, ACTION_DIM))
    still[:, :, 6] = -1.0
    for _ in range(steps // CHUNK):
        sim.step_chunk(still)
    return sim.frame()


def margin(frame: SimFrame, term: PredicateTerm = INSERTED) -> float:
    return float(evaluate(term, frame)[1][0])


# assets and seeds


def test_catalogue() -> None:
    assert len(INSERTION) >= 10
    for item in (*HOLES, *POSTS):
        assert item.fixed
        assert item.seat_m is not None
        assert item.mouth_m is not None
        assert item.mouth_m - item.seat_m > 0.03
    for nut in NUTS:
        assert nut.grip_m[0] > 0.03, "the handle is beside the hole"
        middle = [p for p in nut.parts if not p.visual and _covers_origin(p.pos_m, p.half_m)]
        assert not middle, "the origin lies in the hole"


def _covers_origin(pos: tuple[float, ...], half: tuple[float, ...]) -> bool:
    return all(abs(p) < h for p, h in zip(pos[:2], half[:2], strict=True))


@pytest.mark.parametrize("peg", PEGS, ids=lambda a: a.name)
def test_pegs_fit_the_square_hole_with_play(peg: Asset) -> None:
    half = peg.half_size_m[0]
    assert 0.0025 <= HOLE_HALF_M - half <= 0.0065
    assert HOLE_HALF_M - 1.15 * half >= 0.002, "at the largest scale of the family too"


def test_nuts_fit_the_posts_at_the_smallest_scale() -> None:
    corner = POST_HALF_M * math.sqrt(2)
    inner = {a.name: a.parts[0].pos_m[0] - a.parts[0].half_m[0] for a in NUTS}
    assert all(0.8 * r > POST_HALF_M + 0.002 for r in inner.values())
    assert 0.8 * inner["nut-round"] > corner + 0.002, "a square post in a round nut"


def test_the_family_has_what_every_family_has() -> None:
    assert TASKS == ("stack-two", "stack-three", "peg-in-hole", "nut-on-peg")
    assert len(FAMILY.held_out_assets) >= 2
    for spec in FAMILY.tasks.values():
        assert spec.max_steps % CHUNK == 0
        assert len(set(spec.wordings)) >= 3
        assert set(spec.seed.roles) <= set(spec.assets)
        for role in spec.seed.roles:
            assert spec.seed.alpha.objects[role].asset in spec.assets[role]
        free = set(spec.assets["target"]) - set(FAMILY.held_out_assets)
        assert len(free) >= 2, "held-out assets leave others to train with"


@pytest.mark.parametrize("task", TASKS)
def test_seeds_rest_where_they_are_put_and_are_not_solved(task: str) -> None:
    scene = seed(task)
    sim = BatchSim([scene])
    frame = sim.reset(settle_steps=40)
    for role in scene.roles:
        i = ROLES.index(role)
        drift = np.linalg.norm(frame.pos[0, i, :2] - scene.sigma.poses[role].xy)
        assert drift < 0.002
        assert frame.rot[0, i, 2, 2] > 0.9995
    assert not sim.verified_now()[0]


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
    sim, mouth = peg_states(500)
    frame = rest(sim, 48)
    # independent of the predicate: within the block's outline only the hole lets the lower end
    # under the mouth; a few lean in it, jammed
    bottom = frame.pos[:, TARGET] - frame.rot[:, TARGET, :, 2] * frame.half_size[:, TARGET, 2:3]
    inside = np.abs(bottom[:, :2] - mouth[:2]).max(axis=1) < 0.03
    stands = frame.rot[:, TARGET, 2, 2] > math.cos(0.1)
    truth = inside & (bottom[:, 2] < mouth[2] - 0.015) & stands
    said = evaluate(INSERTED, frame)[0]
    assert 200 < int(truth.sum()) < 300
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
    sim, foot, tip = nut_states(250)
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
    assert 100 < int((said & rests).sum()) < 200
    assert np.array_equal(said[rests], (threaded & stands)[rests])
    assert (threaded & ~stands & rests).any(), "some hang tilted on the tip"


def test_settled_blocks_are_told_apart_without_an_error() -> None:
    count, rng = 250, np.random.default_rng(11)
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
    assert 40 < int(said.sum()) < 200
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


# the planner


def test_the_planner_inserts_what_fits_whatever_the_pair() -> None:
    pairs = [(peg.name, "hole-square") for peg in PEGS] + [("peg-round", "hole-round")]
    nuts = [(nut.name, post.name) for nut in NUTS for post in POSTS]
    scenes = [with_assets(seed("peg-in-hole"), target=t, receptacle=r) for t, r in pairs]
    scenes += [with_assets(seed("nut-on-peg"), target=t, receptacle=r) for t, r in nuts]
    turned = [moved(s, target=(0.5, -0.1, 0.6), receptacle=(0.45, 0.13, -0.5)) for s in scenes]
    episodes = run_scenes(turned, ScriptedPlanner())
    failed = [
        (e.scene.alpha.objects["target"].asset, e.scene.alpha.objects["receptacle"].asset)
        for e in episodes
        if not e.success
    ]
    assert not failed


@pytest.mark.parametrize("task", TASKS)
def test_the_planner_solves_every_task_within_its_time(task: str) -> None:
    scenes = [seed(task), moved(seed(task), target=(0.44, -0.14, 0.02))]
    for episode in run_scenes(scenes, ScriptedPlanner()):
        assert episode.success
        assert episode.steps < 0.8 * task_of(episode.scene).max_steps


def test_a_held_peg_in_its_hole_is_no_success_yet() -> None:
    scene = seed("peg-in-hole")
    episode = run_episodes(BatchSim([scene]), ScriptedPlanner(), keep_fine=True)[0]
    assert episode.success
    assert episode.fine is not None
    frame = SimFrame.unpack(episode.fine)
    held = evaluate(PredicateTerm(name="grasped"), frame)[0] & evaluate(INSERTED, frame)[0]
    assert held.any()
    assert not holds(scene.nu.terms, frame[held]).any()


def test_the_middle_storey_is_left_alone_once_it_stands() -> None:
    scene = seed("stack-three")
    episode = run_episodes(BatchSim([scene]), ScriptedPlanner(), keep_fine=True)[0]
    assert episode.success
    assert episode.fine is not None
    frame = SimFrame.unpack(episode.fine)
    stands = evaluate(PredicateTerm(name="on", subject="receptacle", reference="support"), frame)[0]
    free = evaluate(PredicateTerm(name="released", subject="receptacle"), frame)[0]
    first = int(np.flatnonzero(stands & free)[0])
    apart = frame.pos[first:, RECEPTACLE] - frame.pos[first, RECEPTACLE]
    assert np.abs(apart).max() < 0.004
    assert frame.rot[-1, RECEPTACLE, 2, 2] > 0.999


def test_a_tower_that_fell_is_built_again() -> None:
    scene = seed("stack-three")
    sim = BatchSim([scene])
    frame = sim.reset()
    planner = ScriptedPlanner()
    everyone = np.ones(1, dtype=np.bool_)
    for _ in range(11):
        frame = sim.step_chunk(planner(frame, everyone), everyone).frame
    storey = PredicateTerm(name="on", subject="receptacle", reference="support")
    assert evaluate(storey, frame)[0][0]
    put(sim, 0, "receptacle", np.array([0.42, 0.16, 0.021]), (1.0, 0.0, 0.0, 0.0))
    episode = run_episodes(sim, planner, reset=False)[0]
    assert episode.success


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_planner_solves_its_share(task: str) -> None:
    splits = Splits(family="stack-insert")
    for program, share in ((splits.seed_program(task), 0.95), (splits.wide_program(task), 0.85)):
        rng = np.random.default_rng(17)
        scenes = [sample_scene(program, rng) for _ in range(64)]
        won = sum(e.success for e in run_scenes(scenes, ScriptedPlanner()))
        assert won >= share * len(scenes), f"{task}, {program.name}: {won} of {len(scenes)}"
