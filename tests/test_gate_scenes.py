"""The gate on scenes: every stage rejects what it is there for, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda.sim import gate_physics
from coda.sim.errors import SimulationError
from coda.sim.families import FAMILIES, family
from coda.sim.gate import GATE_CODES, Gate, summarise
from coda.sim.gate_physics import physics_issues
from coda.sim.mjcf import compile_scene
from coda.sim.paths import apply_edits
from coda.sim.program import Edit, Fixed
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits, evaluation_set
from coda.sim.terms import PredicateTerm

SEED = family("pick-place").seed
GATE = Gate()


def edited(**values: Any) -> Scene:
    """The seed scene with path=value; ``__`` is a dot, ``distractor_1`` a role."""
    edits = []
    for key, value in values.items():
        path = key.replace("__", ".").replace("distractor_", "distractor-")
        edits.append(Edit(path=path, sampler=Fixed(value=value)))
    return apply_edits(SEED, edits, np.random.default_rng(0))


def with_terms(*terms: PredicateTerm) -> Scene:
    return SEED.model_copy(update={"nu": SEED.nu.model_copy(update={"terms": terms})})


def with_goal(**fields: Any) -> Scene:
    goal = SEED.tau.goal.model_copy(update=fields)
    return SEED.model_copy(update={"tau": SEED.tau.model_copy(update={"goal": goal})})


def with_instruction(text: str) -> Scene:
    tau = SEED.tau.model_copy(update={"instruction": text})
    return SEED.model_copy(update={"tau": tau})


def codes(scene: Any, gate: Gate = GATE, *, deep: bool = False) -> list[str]:
    return [issue.code for issue in gate.check([scene], deep=deep)[0].issues]


def test_the_seed_scene_of_every_task_passes() -> None:
    tasks = [task for item in FAMILIES.values() for task in item.tasks.values()]
    reports = GATE.check([task.seed for task in tasks])
    assert {t.name: r.issues for t, r in zip(tasks, reports, strict=True)} == {
        task.name: () for task in tasks
    }


@pytest.mark.parametrize("name", list(FAMILIES))
def test_what_is_drawn_from_the_whole_range_mostly_passes(name: str) -> None:
    program = Splits(name).wide_program()
    scenes = [sample_scene(program, np.random.default_rng(1000 + i)) for i in range(10)]
    start = time.process_time()
    summary = summarise(GATE.check(scenes))
    assert time.process_time() - start < 0.25 * len(scenes)  # about 0.025 s each on an idle core
    assert summary.rate >= 0.9, summary.line()


def test_sampled_scenes_pass_every_stage_in_every_form() -> None:
    splits = Splits()
    scenes = [
        sample_scene(program, np.random.default_rng(i), guard=splits)
        for i in range(4)
        for program in (splits.seed_program(), splits.wide_program())
    ]
    reports = Gate(splits, threads=2).check(scenes)
    assert [report.issues for report in reports] == [()] * len(scenes)
    assert [report.scene for report in reports] == scenes
    assert all(0 < report.seconds < 5 for report in reports)
    for form in (scenes[0].canonical(), scenes[0].to_yaml(), scenes[0].model_dump(mode="json")):
        assert GATE.check([form], deep=False)[0].scene == scenes[0]


@pytest.mark.parametrize("name", list(FAMILIES))
def test_frozen_scenes_pass(name: str) -> None:
    chosen = [*evaluation_set("in", name).scenes[::24], *evaluation_set("ood", name).scenes[::40]]
    assert [report.issues for report in GATE.check(chosen)] == [()] * len(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_frozen_scene_passes(name: str) -> None:
    scenes = [*evaluation_set("in", name).scenes, *evaluation_set("ood", name).scenes]
    summary = summarise(GATE.check(scenes))
    assert summary.accepted == len(scenes), summary.line()


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("", "schema"),
        ("[", "schema"),
        ("[" * 5_000, "schema"),
        ("x" * 200_000, "schema"),
        ("a: &a [1]\nb: *a", "schema"),
        ({}, "schema"),
        ({"schema_version": 7}, "schema"),
        ({**SEED.model_dump(), "more": 1}, "schema"),
        (
            {**SEED.model_dump(), "sigma": {"poses": {f"o{i}": {} for i in range(1000)}}},
            "schema",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_scene_is_a_schema_issue(item: Any, code: str) -> None:
    report = GATE.check([item])[0]
    assert report.scene is None
    assert {issue.code for issue in report.issues} == {code}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30, "far", None])
def test_a_scene_built_without_validation_is_validated(value: Any) -> None:
    pose = SEED.sigma.poses["target"].model_copy(update={"xy": (value, 0.0)})
    sigma = SEED.sigma.model_copy(update={"poses": {**SEED.sigma.poses, "target": pose}})
    assert codes(SEED.model_copy(update={"sigma": sigma})) == ["schema"]


@pytest.mark.parametrize(
    ("scene", "code"),
    [
        (SEED.model_copy(update={"tau": SEED.tau.model_copy(update={"family": "x"})}),
         "unknown-family"),
        (SEED.model_copy(update={"tau": SEED.tau.model_copy(update={"task": "x"})}),
         "unknown-task"),
        (with_terms(PredicateTerm(name="on", reference="distractor-1")), "verifier-mismatch"),
        (with_terms(), "verifier-mismatch"),
        (with_terms(*SEED.nu.terms * 100), "verifier-mismatch"),
        (with_goal(relation="inside"), "goal-mismatch"),
        (with_goal(subject="receptacle", reference="target"), "goal-mismatch"),
        (edited(alpha__target__asset="can", alpha__target__scale=1.5), "too-wide"),
        (edited(alpha__target__mass_kg=1.0, alpha__target__friction=0.3), "too-heavy"),
        (edited(sigma__receptacle__xy=(0.48, -0.04)), "too-close"),
        (with_instruction("pick up the thing"), "instruction"),
        (edited(tau__distractors=1, alpha__distractor_1__asset="block",
                alpha__distractor_1__rgba=(0.8, 0.1, 0.1, 1.0)),
         "ambiguous-instruction"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_cheap_stages(scene: Scene, code: str) -> None:
    assert code in codes(scene)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("mass_kg", 900.0, "value-range"),
        ("asset", "plate", "wrong-role-asset"),
        ("asset", "sofa", "unknown-asset"),
    ],
)
def test_values_outside_their_range_name_the_factor(field: str, value: Any, code: str) -> None:
    objects = SEED.alpha.objects
    heavy = objects["target"].model_copy(update={field: value})
    alpha = SEED.alpha.model_copy(update={"objects": {**objects, "target": heavy}})
    issues = GATE.check([SEED.model_copy(update={"alpha": alpha})], deep=False)[0].issues
    assert (code, f"alpha.target.{field}") in {(issue.code, issue.path) for issue in issues}


def test_the_guard_is_part_of_the_gate() -> None:
    cereal = edited(alpha__target__asset="cereal")
    assert codes(cereal, Gate(Splits())) == ["held-out"]
    assert codes(cereal) == []


@pytest.mark.parametrize(
    ("scene", "code"),
    [
        (edited(tau__distractors=1, alpha__distractor_1__asset="lemon"), "rotation-drift"),
        (edited(tau__distractors=1, sigma__distractor_1__xy=(0.555, -0.10),
                sigma__distractor_1__yaw=1.57, alpha__distractor_1__asset="cereal",
                alpha__distractor_1__scale=1.5), "hidden"),
        (edited(tau__distractors=1, sigma__distractor_1__xy=(0.42, 0.03),
                alpha__distractor_1__asset="milk", alpha__distractor_1__scale=1.6,
                sigma__robot__xyz=(0.42, 0.0, 0.14)), "start-blocked"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_simulated_stages(scene: Scene, code: str) -> None:
    assert code in codes(scene, deep=True)


def test_verifiers_that_the_cheap_stages_would_stop_are_seen_through_in_simulation() -> None:
    early, late = physics_issues(
        [with_terms(PredicateTerm(name="settled")), with_terms(PredicateTerm(name="lifted"))]
    )
    assert [issue.code for issue in early] == ["solved-at-reset"]
    assert [issue.code for issue in late] == ["goal-not-recognised"]


def test_simulated_stages_on_scenes_that_the_cheap_ones_would_stop() -> None:
    def moved(**poses: tuple[float, float]) -> Scene:
        new = {
            role: pose.model_copy(update={"xy": poses.get(role, pose.xy)})
            for role, pose in SEED.sigma.poses.items()
        }
        return SEED.model_copy(update={"sigma": SEED.sigma.model_copy(update={"poses": new})})

    far, beside, inside = physics_issues(
        [
            moved(target=(0.80, -0.28)),
            moved(receptacle=(0.20, 0.90)),
            moved(target=(0.48, 0.13)),
        ]
    )
    assert "unreachable-grasp" in {issue.code for issue in far}
    assert "unreachable-goal" in {issue.code for issue in beside}
    assert "out-of-view" in {issue.code for issue in beside}
    assert "penetration" in {issue.code for issue in inside}


def test_a_scene_that_does_not_compile_is_an_issue(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(scene: Scene) -> Any:
        if scene != SEED:
            raise SimulationError("mesh volume is too small")
        return compile_scene(scene)

    monkeypatch.setattr(gate_physics, "compile_scene", refuse)
    good, bad = physics_issues([SEED, edited(alpha__target__scale=1.1)])
    assert good == ()
    assert [(issue.code, issue.value) for issue in bad] == [("compile", "mesh volume is too small")]


Change = Callable[[mujoco.MjModel], None]


def loosen(model: mujoco.MjModel) -> None:
    """A fixture's joint neither sticks nor is damped, and the table is not level."""
    tilt_the_table(model)
    dof = int(model.joint("target_joint").dofadr[0])
    model.dof_frictionloss[dof] = 0.0
    model.dof_damping[dof] = 1e-3


def tilt_the_table(model: mujoco.MjModel) -> None:
    model.opt.gravity[:] = (12.0, 0.0, -9.81)


def explode(model: mujoco.MjModel) -> None:
    model.opt.gravity[:] = (0.0, 0.0, -1e12)


@pytest.mark.parametrize(
    ("scene", "change", "code", "path"),
    [
        (FAMILIES["articulated"].tasks["close-drawer"].seed, loosen, "joint-drift", "tau.opening"),
        (SEED, tilt_the_table, "drift", "sigma.target.xy"),
        (SEED, explode, "unstable", "(whole)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_physics_that_does_not_hold_still(
    scene: Scene, change: Change, code: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(scene: Scene) -> mujoco.MjModel:
        model = compile_scene(scene)
        change(model)
        return model

    if code == "joint-drift":
        tau = scene.tau.model_copy(update={"opening": 0.5})
        scene = scene.model_copy(update={"tau": tau})
    monkeypatch.setattr(gate_physics, "compile_scene", build)
    assert (code, path) in {(issue.code, issue.path) for issue in physics_issues([scene])[0]}


def test_reach_and_sight_follow_the_handle() -> None:
    scene = FAMILIES["articulated"].tasks["open-drawer"].seed
    pose = scene.sigma.poses["target"].model_copy(update={"xy": (0.80, 0.0), "yaw": np.pi})
    away = scene.model_copy(
        update={"sigma": scene.sigma.model_copy(update={"poses": {"target": pose}})}
    )
    near, far = physics_issues([scene, away])
    assert near == ()
    found = {issue.code: issue for issue in far}
    assert "unreachable-handle" in found
    assert found["unreachable-handle"].path == "sigma.target.xy"


def test_reports_come_in_order_and_rejected_scenes_do_not_disturb_others() -> None:
    lemon = edited(tau__distractors=1, alpha__distractor_1__asset="lemon")
    bad = with_instruction("pick up the thing")
    reports = GATE.check([bad, SEED, lemon, SEED])
    assert [report.accepted for report in reports] == [False, True, False, True]
    alone = GATE.check([lemon])[0]
    assert reports[2].issues == alone.issues
    assert GATE.check([]) == []


@settings(max_examples=60, deadline=None)
@given(
    path=st.sampled_from(
        [("sigma", "poses", "target", "xy"), ("alpha", "objects", "target", "scale"),
         ("alpha", "objects", "target", "asset"), ("nu", "terms"), ("tau", "goal"),
         ("tau", "distractors"), ("sigma", "robot", "xyz"), ("sigma", "poses"), ("tau",)]
    ),
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.lists(st.floats() | st.integers(), max_size=4)
    | st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)  # fmt: skip
def test_no_scene_crashes_the_gate(path: tuple[str, ...], value: Any) -> None:
    data = SEED.model_dump(mode="json")
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    report = GATE.check([data], deep=False)[0]
    assert report.accepted or all(issue.code in GATE_CODES for issue in report.issues)
