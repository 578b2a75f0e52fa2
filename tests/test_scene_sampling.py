"""Drawing scenes from programs: determinism, guard, bounded redraws."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda.sim.assets import ASSETS
from coda.sim.families import FAMILIES, family
from coda.sim.family import opening_range
from coda.sim.gate_checks import GRASP_WIDTH_M, footprint_gap, separation, static_findings
from coda.sim.gate_program import drawable_tasks, program_issues
from coda.sim.paths import read_factor, write_factor
from coda.sim.program import (
    Choice,
    Edit,
    Fixed,
    GenerationProgram,
    MinSeparation,
    Normal,
    Sampler,
    Uniform,
)
from coda.sim.roles import AXES, Axis
from coda.sim.sampling import Rejected, all_edits, sample_scene, sample_where
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from tests.program_strategies import programs

SPLITS = Splits()


def program(**samplers: Sampler) -> GenerationProgram:
    """A program from path=sampler, with ``__`` for a dot and ``_`` for a dash in the role."""
    edits = []
    for key, sampler in samplers.items():
        group, *rest = key.split("__")
        path = ".".join([group, *(part.replace("distractor_", "distractor-") for part in rest)])
        edits.append(Edit(path=path, sampler=sampler))
    return GenerationProgram(name="t", family="pick-place", edits=tuple(edits))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_same_seed_draws_the_same_scene_and_others_differ() -> None:
    wide = SPLITS.wide_program()
    scenes = [sample_scene(wide, rng(i), guard=SPLITS) for i in range(8)]
    assert scenes == [sample_scene(wide, rng(i), guard=SPLITS) for i in range(8)]
    assert len({scene.digest() for scene in scenes}) == 8


def test_the_guard_keeps_every_scene_out_of_held_out_cells() -> None:
    wide, held_out = SPLITS.wide_program(), set(family("pick-place").held_out_assets)
    for i in range(30):
        scene = sample_scene(wide, rng(i), guard=SPLITS)
        assert SPLITS.held_out(scene) == ()
        SPLITS.check(scene)
        assert not {record.asset for record in scene.alpha.objects.values()} & held_out
    free = [sample_scene(wide, rng(i)) for i in range(30)]
    assert any(SPLITS.held_out(scene) for scene in free)


@pytest.mark.parametrize("axis", AXES)
def test_wanting_one_axis_held_out_gives_exactly_that_axis(axis: Axis) -> None:
    want = {other: other == axis for other in AXES}
    scene = sample_where(SPLITS.program((axis,)), rng(5), splits=SPLITS, want=want)
    assert SPLITS.held_out(scene) == (axis,)


def test_redrawing_one_factor_leaves_the_others_as_they_were() -> None:
    wide = SPLITS.program(("yaw", "size"))
    redrawn = 0
    for i in range(10):
        free, guarded = sample_scene(wide, rng(i)), sample_scene(wide, rng(i), guard=SPLITS)
        names = [(SPLITS.cell_name(a, free), SPLITS.cell_name(a, guarded)) for a in AXES]
        moved = {axis for axis, (one, two) in zip(AXES, names, strict=True) if one != two}
        assert moved <= set(SPLITS.held_out(free))
        redrawn += len(moved)
    assert redrawn > 0


def test_a_program_fixed_in_a_held_out_cell_is_rejected_with_its_path() -> None:
    with pytest.raises(Rejected, match="held-out") as caught:
        sample_scene(program(alpha__target__asset=Fixed(value="cereal")), rng(), guard=SPLITS)
    assert [issue.path for issue in caught.value.issues] == ["alpha.target.asset"]


def test_an_impossible_constraint_is_rejected_within_bounds() -> None:
    crowded = GenerationProgram(
        name="t",
        family="pick-place",
        edits=(Edit(path="sigma.target.xy", sampler=Uniform(low=(0.4, 0.1), high=(0.5, 0.2))),),
        constraints=(MinSeparation(roles=("target", "receptacle"), distance_m=0.9),),
    )
    with pytest.raises(Rejected, match="min-separation") as caught:
        sample_scene(crowded, rng())
    assert caught.value.issues[-1].code == "cannot-place"


def test_undescribed_distractors_are_placed_apart_and_named_apart() -> None:
    crowd = program(tau__distractors=Fixed(value=3))
    assert len(all_edits(crowd)) == 1 + 3 * 4
    for i in range(10):
        scene = sample_scene(crowd, rng(i))
        assert scene.tau.distractors == 3
        assert static_findings(scene) == []


def test_a_clash_that_no_edit_can_cure_is_rejected_at_once() -> None:
    same = program(sigma__target__xy=Fixed(value=(0.48, 0.14)))
    with pytest.raises(Rejected) as caught:
        sample_scene(same, rng())
    assert [issue.code for issue in caught.value.issues] == ["too-close"]


def test_an_unsound_program_is_rejected_before_anything_is_drawn() -> None:
    with pytest.raises(Rejected, match="unknown-path"):
        sample_scene(program(sigma__target__z=Fixed(value=1)), rng())


def test_samplers_cover_what_they_say() -> None:
    counts = Counter(
        sample_scene(program(tau__distractors=Uniform(low=0, high=2)), rng(i)).tau.distractors
        for i in range(40)
    )
    assert set(counts) == {0, 1, 2}
    weighted = Choice(values=("cube", "block"), weights=(0.0, 1.0))
    assert sample_scene(program(alpha__target__asset=weighted), rng()).alpha.objects[
        "target"
    ].asset == "block"  # fmt: skip
    normal = Normal(mean=1.0, std=1.0, low=0.9, high=1.1)
    masses = [
        sample_scene(program(alpha__target__scale=normal), rng(i)).alpha.objects["target"].scale
        for i in range(20)
    ]
    assert all(0.9 <= mass <= 1.1 for mass in masses)
    assert len(set(masses)) == 20


def test_square_objects_keep_their_yaw_within_a_quarter_turn() -> None:
    turned = program(alpha__target__asset=Fixed(value="cube"), sigma__target__yaw=Fixed(value=1.2))
    pose = sample_scene(turned, rng()).sigma.poses["target"]
    assert pose.yaw == pytest.approx(1.2 - math.pi / 2, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(drawn=programs(), seed=st.integers(0, 2**32 - 1), guarded=st.booleans())
def test_sound_programs_draw_valid_scenes_or_say_why_not(
    drawn: GenerationProgram, seed: int, guarded: bool
) -> None:
    assert program_issues(drawn) == ()
    assert GenerationProgram.model_validate_json(drawn.model_dump_json()) == drawn
    splits = Splits(family=drawn.family)
    try:
        scene = sample_scene(drawn, rng(seed), guard=splits if guarded else None)
    except Rejected:
        return
    assert scene.tau.task in drawable_tasks(drawn)
    assert static_findings(scene) == []
    assert Scene.from_text(scene.canonical()) == scene
    assert not guarded or splits.held_out(scene) == ()
    for edit in drawn.edits:
        if isinstance(edit.sampler, Fixed) and edit.path == "tau.distractors":
            assert scene.tau.distractors == edit.sampler.value


def stack(**samplers: Sampler) -> GenerationProgram:
    """A program of stack and insert."""
    return program(**samplers).model_copy(update={"family": "stack-insert"})


def test_edits_of_roles_that_the_drawn_task_lacks_are_skipped() -> None:
    both = stack(
        tau__task=Choice(values=("stack-two", "stack-three")),
        sigma__support__xy=Fixed(value=(0.60, -0.10)),
    )
    scenes = [sample_scene(both, rng(i)) for i in range(12)]
    assert {scene.tau.task for scene in scenes} == {"stack-two", "stack-three"}
    for scene in scenes:
        support = scene.sigma.poses.get("support")
        assert (support is None) == (scene.tau.task == "stack-two")
        assert support is None or support.xy == (0.60, -0.10)


def test_assets_and_openings_are_narrowed_to_the_drawn_task() -> None:
    names = ("cube", "brick", "peg-square", "peg-long")
    mixed = stack(
        tau__task=Choice(values=("stack-two", "peg-in-hole")),
        alpha__target__asset=Choice(values=names),
    )
    for i in range(16):
        scene = sample_scene(mixed, rng(i))
        asset = scene.alpha.objects["target"].asset
        assert asset.startswith("peg") == (scene.tau.task == "peg-in-hole")
    fixtures = program(
        tau__task=Choice(values=("open-drawer", "close-drawer")),
        tau__opening=Uniform(low=0.0, high=1.0),
    ).model_copy(update={"family": "articulated"})
    for i in range(16):
        scene = sample_scene(fixtures, rng(i))
        low, high = opening_range(family("articulated").tasks[scene.tau.task])
        assert low <= scene.tau.opening <= high


def test_every_task_of_a_family_is_drawn_from_its_own_seed_scene() -> None:
    for item in FAMILIES.values():
        if len(item.tasks) == 1:
            continue
        for name, task in item.tasks.items():
            only = GenerationProgram(
                name="t",
                family=item.name,
                edits=(Edit(path="tau.task", sampler=Fixed(value=name)),),
            )
            assert sample_scene(only, rng()) == task.seed


def test_footprints_measure_boxes_and_discs() -> None:
    scene = sample_scene(SPLITS.seed_program(), rng())
    scene = write_factor(scene, "tau.distractors", 2)
    scene = write_factor(scene, "alpha.target.asset", "cube")
    for path, value in {
        "sigma.target.xy": (0.40, 0.0),
        "sigma.target.yaw": 0.0,
        "alpha.target.scale": 1.0,
        "sigma.receptacle.xy": (0.52, 0.0),
        "sigma.distractor-1.xy": (0.40, 0.10),
        "sigma.distractor-2.xy": (0.40, -0.10),
        "sigma.distractor-2.yaw": math.pi / 4,
    }.items():
        scene = write_factor(scene, path, value)
    gap = footprint_gap(scene, "target", "receptacle")
    assert gap == pytest.approx(0.12 - 0.022 - ASSETS["plate"].half_size_m[0])
    assert footprint_gap(scene, "receptacle", "target") == pytest.approx(gap)
    round_one = write_factor(scene, "alpha.distractor-1.asset", "cylinder")
    assert footprint_gap(round_one, "target", "distractor-1") == pytest.approx(0.10 - 0.044)
    round_two = write_factor(round_one, "alpha.distractor-2.asset", "cylinder")
    assert footprint_gap(round_two, "distractor-1", "distractor-2") == pytest.approx(0.20 - 0.044)
    inside = write_factor(round_one, "sigma.distractor-1.xy", (0.40, 0.005))
    assert footprint_gap(inside, "target", "distractor-1") < -0.03
    assert footprint_gap(scene, "target", "distractor-1") == pytest.approx(0.10 - 0.044)
    turned = 0.10 - 0.022 - 0.022 * math.sqrt(2)
    assert footprint_gap(scene, "target", "distractor-2") == pytest.approx(turned)
    assert separation(scene, "target", "receptacle") == pytest.approx(0.12)
    assert GRASP_WIDTH_M < 0.08


@pytest.mark.parametrize("bounds", [(0.0, -0.0), ((0.48, 0.0), (0.48, -0.0))])
def test_a_negative_zero_is_a_zero(bounds: tuple[Any, Any]) -> None:
    path = "sigma.target.xy" if isinstance(bounds[0], tuple) else "sigma.target.yaw"
    program = GenerationProgram(
        name="zero",
        family="pick-place",
        edits=(Edit(path=path, sampler=Uniform(low=bounds[0], high=bounds[1])),),
    )
    scene = sample_scene(program, np.random.default_rng(0))
    assert np.abs(np.subtract(read_factor(scene, path), bounds[0])).max() == 0.0
