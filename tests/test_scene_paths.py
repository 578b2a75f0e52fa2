"""Factor paths, wordings and applying edits to a given scene."""

from __future__ import annotations

import numpy as np
import pytest

from coda.sim.assets import ASSETS
from coda.sim.errors import SceneError, UnknownName
from coda.sim.factors import (
    FACTORS,
    axis_of,
    check_value,
    factor,
    factors,
    scene_factors,
    task_factors,
)
from coda.sim.families import FAMILIES, family
from coda.sim.gate_checks import GRASP_WIDTH_M
from coda.sim.paths import apply_edits, read_factor, write_factor
from coda.sim.program import Edit, Fixed, RelativeToRole, Uniform
from coda.sim.roles import AXES, Role
from coda.sim.scene import ObjectAttributes, Scene
from coda.sim.wording import (
    COLOURS,
    ambiguous_roles,
    bound_roles,
    colour_name,
    named_roles,
    reword,
    rgba_of,
    say,
    unnamed_roles,
    wording_of,
)

SEED = family("pick-place").seed
TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]


def edit(path: str, value: object) -> Edit:
    return Edit(path=path, sampler=Fixed(value=value))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_assets_can_play_the_roles_that_a_task_gives_them(name: str, task: str) -> None:
    spec = family(name).tasks[task]
    assert set(spec.seed.roles) <= set(spec.assets)
    for role, names in spec.assets.items():
        assert all(asset in ASSETS for asset in names), role
        if role.startswith("distractor-"):
            assert any(ASSETS[asset].graspable for asset in names)
    for asset in spec.assets["target"]:
        item = ASSETS[asset]
        assert (item.joint is not None) != item.graspable
        if item.graspable:
            half = item.grip_half_m or item.half_size_m
            assert 2 * min(half[:2]) <= GRASP_WIDTH_M


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_every_factor_is_read_back_as_written(name: str, task: str) -> None:
    full = write_factor(family(name).tasks[task].seed, "tau.distractors", 3)
    own = task_factors(name, task)
    assert scene_factors(full) == own
    assert set(own) <= set(factors(name)) <= set(FACTORS)
    for path, f in own.items():
        if path == "tau.task":
            continue
        value: object = f.names[-1] if f.names else f.high
        if f.kind == "number":
            value = f.high[0]
        if f.kind == "count":
            value = 3
        written = write_factor(full, path, value)
        assert read_factor(written, path) == value
        assert Scene.model_validate(written.model_dump()) == written


def test_the_catalogue_is_the_hull_of_all_tasks() -> None:
    for name, task in TASKS:
        for path, f in task_factors(name, task).items():
            for whole in (factors(name)[path], FACTORS[path]):
                assert set(f.names) <= set(whole.names)
                assert all(a <= b for a, b in zip(whole.low, f.low, strict=True))
                assert all(a >= b for a, b in zip(whole.high, f.high, strict=True))
    assert "tau.task" not in factors("pick-place")
    assert factors("stack-insert")["tau.task"].names == tuple(family("stack-insert").tasks)
    assert "sigma.support.xy" in FACTORS
    assert "sigma.support.xy" not in factors("pick-place")
    with pytest.raises(UnknownName, match=r"no pick-place factor path named 'sigma.support.xy'"):
        factor("sigma.support.xy", "pick-place")


def test_writing_the_task_gives_its_seed_scene() -> None:
    item = family("stack-insert")
    two, three = item.tasks["stack-two"].seed, item.tasks["stack-three"].seed
    moved = write_factor(two, "sigma.target.xy", (0.5, 0.0))
    assert write_factor(moved, "tau.task", "stack-two") == moved
    assert write_factor(moved, "tau.task", "stack-three") == three
    assert read_factor(three, "tau.task") == "stack-three"
    with pytest.raises(SceneError, match=r"has no support .its task is stack-two.; it has target"):
        write_factor(two, "sigma.support.xy", (0.5, 0.0))
    with pytest.raises(SceneError, match="pick-place/place has no such factor; edit another path"):
        write_factor(SEED, "tau.task", "place")


def test_every_axis_has_a_factor() -> None:
    assert {factor.axis for factor in FACTORS.values()} == set(AXES)
    assert axis_of("sigma.target.yaw") == "yaw"
    assert axis_of("alpha.receptacle.scale") == "goal"
    assert axis_of("sigma.support.xy") == "goal"
    assert axis_of("tau.task") == "goal"
    assert axis_of("alpha.distractor-2.asset") == "distractors"


def test_distractors_are_switched_on_with_defaults_and_off_again() -> None:
    two = write_factor(SEED, "tau.distractors", 2)
    assert two.roles == ("target", "receptacle", "distractor-1", "distractor-2")
    assert two.tau.distractors == 2
    moved = write_factor(two, "sigma.distractor-1.xy", (0.6, 0.2))
    assert read_factor(write_factor(moved, "tau.distractors", 1), "sigma.distractor-1.xy") == (
        0.6,
        0.2,
    )
    assert write_factor(moved, "tau.distractors", 0) == SEED


def test_errors_name_the_value_and_what_is_allowed() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'sigma.target.xy'"):
        read_factor(SEED, "sigma.target.x")
    with pytest.raises(SceneError, match=r"no distractor-1 .*raise tau.distractors first"):
        read_factor(SEED, "sigma.distractor-1.xy")
    with pytest.raises(SceneError, match=r"alpha.target.scale = 9 .*from 0.5 to 2"):
        write_factor(SEED, "alpha.target.scale", 9)
    with pytest.raises(SceneError, match=r"one of cube, block"):
        write_factor(SEED, "alpha.target.asset", "plate")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("alpha.target.scale", float("nan")),
        ("alpha.target.scale", True),
        ("alpha.target.scale", "1"),
        ("alpha.target.scale", (1.0,)),
        ("sigma.target.xy", 0.5),
        ("sigma.target.xy", (0.5, 0.0, 0.0)),
        ("sigma.target.xy", (0.5, float("inf"))),
        ("tau.distractors", 1.5),
        ("tau.distractors", float("nan")),
        ("alpha.target.asset", 3),
    ],
)
def test_values_that_do_not_fit_a_path_are_refused(path: str, value: object) -> None:
    problem = check_value(path, value)
    assert problem is not None
    assert problem.code in ("value-type", "value-range")


def test_applying_edits_rewrites_the_instruction_and_skips_absent_distractors() -> None:
    edits = [
        edit("alpha.target.asset", "milk"),
        edit("alpha.target.rgba", rgba_of("blue")),
        edit("sigma.distractor-1.xy", (0.4, 0.0)),
    ]
    scene = apply_edits(SEED, edits, np.random.default_rng(0))
    assert scene.tau.instruction == "pick up the blue milk carton and place it on the white plate"
    assert scene.roles == SEED.roles


def test_edits_draw_from_the_generator_that_is_given() -> None:
    edits = [Edit(path="sigma.target.yaw", sampler=Uniform(low=-0.5, high=0.5))]
    one = apply_edits(SEED, edits, np.random.default_rng(3))
    assert one == apply_edits(SEED, edits, np.random.default_rng(3))
    assert one != apply_edits(SEED, edits, np.random.default_rng(4))


def test_relative_to_role_stays_within_its_ring() -> None:
    ring = RelativeToRole(role="target", radius=(0.15, 0.16), angle=(0.0, 1.0))
    for seed in range(20):
        scene = apply_edits(
            SEED, [Edit(path="sigma.receptacle.xy", sampler=ring)], np.random.default_rng(seed)
        )
        offset = np.subtract(scene.sigma.poses["receptacle"].xy, scene.sigma.poses["target"].xy)
        assert 0.15 - 1e-5 <= np.hypot(*offset) <= 0.16 + 1e-5


def test_colour_names_survive_the_round_trip() -> None:
    assert all(colour_name(rgba_of(name)) == name for name in COLOURS)
    assert all(
        len({colour_name((r, g, b, a)) for a in (0.0, 1.0)}) == 1
        for r, g, b in COLOURS.values()
    )  # fmt: skip


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_every_wording_names_its_objects_and_is_recognised(name: str, task: str) -> None:
    spec = family(name).tasks[task]
    assert len(spec.wordings) >= 3
    assert wording_of(spec.seed) == 0
    for index, wording in enumerate(spec.wordings):
        assert set(named_roles(wording)) == set(bound_roles(spec.seed))
        scene = reword(spec.seed, index)
        assert wording_of(scene) == index
        assert unnamed_roles(scene) == ()
        assert reword(scene) == scene
    assert reword(spec.seed) == spec.seed


def test_an_object_that_is_not_named_or_not_unique_is_found() -> None:
    other = SEED.model_copy(
        update={"tau": SEED.tau.model_copy(update={"instruction": "pick up the red blocks"})}
    )
    assert unnamed_roles(other) == ("target", "receptacle")
    twin = write_factor(SEED, "tau.distractors", 1)
    twin = write_factor(twin, "alpha.distractor-1.asset", SEED.alpha.objects["target"].asset)
    twin = write_factor(twin, "alpha.distractor-1.rgba", SEED.alpha.objects["target"].rgba)
    assert ambiguous_roles(twin) == ("distractor-1",)
    objects: dict[Role, ObjectAttributes] = {
        "target": ObjectAttributes(asset="can", rgba=rgba_of("green")),
        "receptacle": SEED.alpha.objects["receptacle"],
    }
    assert say("put the {target} on the {receptacle}", objects) == (
        "put the green can on the white plate"
    )


def test_names_are_told_apart_among_all_roles() -> None:
    tower = family("stack-insert").tasks["stack-three"].seed
    assert ambiguous_roles(tower) == ()
    record = tower.alpha.objects["receptacle"]
    twin = write_factor(tower, "alpha.support.asset", record.asset)
    twin = write_factor(twin, "alpha.support.rgba", record.rgba)
    assert ambiguous_roles(twin) == ("support",)


def test_a_distractor_that_is_switched_on_has_a_colour_of_its_own() -> None:
    for name, task in TASKS:
        full = write_factor(family(name).tasks[task].seed, "tau.distractors", 3)
        assert len({colour_name(r.rgba) for r in full.alpha.objects.values()}) == len(full.roles)
        assert ambiguous_roles(full) == ()
