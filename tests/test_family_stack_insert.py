"""The stack-insert family: assets, seed scenes, and the planner."""

from __future__ import annotations

import numpy as np
import pytest

from coda.sim.assets_insertion import (
    HOLES,
    INSERTION,
    NUTS,
    PEGS,
    POSTS,
    insertion_play,
)
from coda.sim.engine import CHUNK, BatchSim
from coda.sim.families import task_of
from coda.sim.frame import SimFrame
from coda.sim.gate_checks import check_fit
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import evaluate, holds
from coda.sim.roles import ROLES
from coda.sim.rollout import run_episodes, run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from coda.sim.terms import PredicateTerm
from tests.insertion_world import (
    FAMILY,
    INSERTED,
    RECEPTACLE,
    moved,
    put,
    seed,
    with_assets,
)

TASKS = tuple(FAMILY.tasks)


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


def play(scene: Scene) -> float | None:
    objects = scene.alpha.objects
    return insertion_play(objects["target"], objects["receptacle"])


@pytest.mark.parametrize("scale", [0.8, 1.0, 1.15])
def test_what_the_family_draws_fits_with_play(scale: float) -> None:
    for peg in PEGS:
        room = play(with_assets(seed("peg-in-hole"), scale, target=peg.name))
        assert room is not None
        assert room >= 0.0024
    for nut in NUTS:
        for post in POSTS:
            room = play(
                with_assets(seed("nut-on-peg"), scale, target=nut.name, receptacle=post.name)
            )
            assert room is not None
            assert room >= 0.0024


def test_what_does_not_fit_is_refused_before_any_simulation() -> None:
    peg, nut = seed("peg-in-hole"), seed("nut-on-peg")
    tight = [
        with_assets(peg, receptacle="hole-round"),
        with_assets(peg, 1.3),
        with_assets(nut, 0.6),
    ]
    for scene in tight:
        assert "no-fit" in [found.issue.code for found in check_fit(scene)]
    for scene in (peg, nut, with_assets(peg, target="peg-round", receptacle="hole-round")):
        assert not list(check_fit(scene))
    assert play(with_assets(peg, target="cube")) is None


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
