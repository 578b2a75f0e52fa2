"""The four roles: what rules answer, what is checked, and what goes back with words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coda.agents import critic, curriculum, refuter, scene_builder
from coda.agents.cures import revert, varied_paths
from coda.agents.curriculum import AxisFacts, ModeFacts, PlanFacts
from coda.agents.omega import compile_generation
from coda.agents.record import NoAnswer
from coda.agents.rules import RULES
from coda.agents.scene_builder import Slot
from coda.policy.potential_base import base_program
from coda.sim.factors import axis_of, check_value
from coda.sim.families import FAMILIES, family
from coda.sim.gate_program import program_issues
from coda.sim.paths import write_factor
from coda.sim.program import Choice, Edit, Fixed, GenerationProgram, Issue, Uniform
from coda.sim.roles import AXES, Axis
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits
from coda.sim.wording import reword
from tests.agents_world import by_rules, make_diagnosis, make_mode, scripted

SPLITS = Splits()
SEED = family("pick-place").seed


def sampler_of(program: GenerationProgram, path: str) -> Any:
    return next(edit.sampler for edit in program.edits if edit.path == path)


def issue(code: str, path: str, value: str = "x") -> Issue:
    return Issue(code=code, path=path, value=value, limit="y", remedy="z")


def test_there_is_a_prompt_file_and_a_rule_for_every_task() -> None:
    from coda.agents.prompting import prompt_names, render

    tasks = {name.split(".")[1] for name in prompt_names() if "." in name}
    assert tasks == set(RULES)
    assert {name.split(".")[0] for name in prompt_names()} == {
        "scene-builder",
        "critic",
        "refuter",
        "curriculum",
    }
    assert all(len(render(name)) > 200 for name in prompt_names())


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("magnitude", ["small", "large"])
def test_exploring_widens_one_axis_and_yields_scenes(axis: Axis, magnitude: Any) -> None:
    slot = Slot(task="place", kind="explore", axis=axis, magnitude=magnitude)
    program = scene_builder.write_program(by_rules(), slot)
    assert program_issues(program) == ()
    seed = {edit.path: edit.sampler for edit in SPLITS.seed_program().edits}
    changed = {axis_of(e.path) for e in program.edits if e.sampler != seed.get(e.path)}
    assert changed == {axis}
    rng = np.random.default_rng(3)
    scenes = [sample_scene(program, rng, guard=SPLITS) for _ in range(3)]
    assert all(SPLITS.held_out(scene) == () for scene in scenes)


def test_magnitude_controls_the_width() -> None:
    def width(magnitude: Any) -> float:
        slot = Slot(task="place", kind="explore", axis="yaw", magnitude=magnitude)
        sampler = sampler_of(scene_builder.write_program(by_rules(), slot), "sigma.target.yaw")
        return float(sampler.high - sampler.low)

    assert 0.2 < width("small") < width("medium") < width("large") <= np.pi + 1e-3


def test_focus_gets_easier_or_harder_by_the_band() -> None:
    narrow = Uniform(low=-0.6, high=0.6)
    omega = SPLITS.program(["yaw"])
    edits = tuple(
        e.model_copy(update={"sampler": narrow}) if e.path == "sigma.target.yaw" else e
        for e in omega.edits
    )
    mode = make_mode(omega=omega.model_copy(update={"edits": edits}))

    def high(last: float | None) -> float:
        slot = Slot(task="place", kind="focus", axis="yaw", mode=mode, last_success=last)
        program = scene_builder.write_program(by_rules(), slot)
        return float(sampler_of(program, "sigma.target.yaw").high)

    assert high(0.0) < high(0.5) == 0.6 == high(None) < high(1.0)


def test_requests_are_followed_and_avoided_axes_left_alone() -> None:
    slot = Slot(
        task="place",
        kind="explore",
        axis="yaw",
        avoid_axes=("position",),
        requests=("alpha.target.scale lower", "sing a song"),
    )
    program = scene_builder.write_program(by_rules(), slot)
    scale = sampler_of(program, "alpha.target.scale")
    assert scale.low < scale.high < 1.0
    assert "Rules cannot follow: sing a song" in program.rationale


@pytest.mark.parametrize("code", ["off-workspace", "unreachable-grasp", "held-out"])
def test_repair_shrinks_towards_the_seed(code: str) -> None:
    slot = Slot(task="place", kind="explore", axis="position", magnitude="large")
    first = scene_builder.write_program(by_rules(), slot)
    second = scene_builder.write_program(
        by_rules(), slot, [issue(code, "sigma.target.xy")], previous=first
    )
    before, after = (sampler_of(p, "sigma.target.xy") for p in (first, second))
    assert before.low[0] < after.low[0] < 0.48 < after.high[0] < before.high[0]
    assert f"Repaired by rule: {code}" in second.rationale


def test_repair_separates_objects_that_touch() -> None:
    slot = Slot(task="place", kind="explore", axis="goal", magnitude="large")
    first = scene_builder.write_program(by_rules(), slot)
    report = [issue("too-close", "sigma.receptacle.xy", "receptacle")]
    second = scene_builder.write_program(by_rules(), slot, report, previous=first)
    apart = {c.roles: c.distance_m for c in second.constraints}
    assert apart[("target", "receptacle")] > first.constraints[0].distance_m


def test_repair_drops_unknown_paths() -> None:
    slot = Slot(task="place", kind="explore", axis="yaw")
    first = scene_builder.write_program(by_rules(), slot)
    odd = first.edits[0].model_copy(update={"path": "sigma.target.z"})
    broken = first.model_copy(update={"edits": (*first.edits, odd)})
    second = scene_builder.write_program(
        by_rules(), slot, [issue("unknown-path", "sigma.target.z")], previous=broken
    )
    assert second.edits == first.edits


def test_a_program_against_a_persons_wish_goes_back_with_words() -> None:
    slot = Slot(task="place", kind="explore", axis="yaw", avoid_axes=("position",))
    wrong = {"program": SPLITS.program(["yaw", "position"]).model_dump(mode="json")}
    right = {"program": SPLITS.program(["yaw"]).model_dump(mode="json")}
    caller, model = scripted(wrong, right)
    program = scene_builder.write_program(caller, slot)
    assert program.name == "wide: yaw"
    assert "a person asked to leave alone" in str(model.prompts[1][-1].text)


def test_the_refuters_rule_reverts_only_the_blamed_axis() -> None:
    program = SPLITS.program(["yaw", "size"])
    diagnosis = make_diagnosis(cure=revert(program, "yaw", SEED))
    plan = refuter.design_controls(by_rules(), diagnosis, program, SEED)
    assert [edit.path for edit in plan.control] == ["sigma.target.yaw"]
    assert plan.control[0].sampler == Fixed(value=0.0)
    assert plan.placebo_axis == "goal"
    assert {axis_of(edit.path) for edit in plan.placebo} == {"goal"}


def test_a_placebo_exists_even_where_nothing_else_varies() -> None:
    edits = tuple(e for e in SPLITS.program(["yaw"]).edits if e.path == "sigma.target.yaw")
    program = GenerationProgram(name="only yaw", family="pick-place", edits=edits)
    diagnosis = make_diagnosis(cure=revert(program, "yaw", SEED))
    plan = refuter.design_controls(by_rules(), diagnosis, program, SEED)
    assert [edit.path for edit in plan.placebo] == ["alpha.target.rgba"]


@pytest.mark.parametrize(
    ("name", "task", "stage", "blamed", "placebo"),
    [
        ("articulated", "open-door", "descend", "yaw", "mass-friction"),
        ("articulated", "open-door", "move", "mass-friction", "position"),
        ("put-inside", "closed-drawer", "open", "goal", "mass-friction"),
        ("put-inside", "bin", "carry", "goal", "yaw"),
        ("stack-insert", "stack-three", "take-storey", "goal", "mass-friction"),
        ("stack-insert", "peg-in-hole", "grasp", "yaw", "goal"),
    ],
)
def test_the_placebo_is_what_matters_least_to_the_stage_that_fails(
    name: str, task: str, stage: str, blamed: Axis, placebo: str
) -> None:
    seed = family(name).tasks[task].seed
    program = Splits(family=name).wide_program(task)
    diagnosis = make_diagnosis(
        failed_stage=stage, axis=blamed, cure=revert(program, blamed, seed)[:4]
    )
    plan = refuter.design_controls(by_rules(), diagnosis, program, seed)
    assert plan.placebo_axis == placebo


ALL_TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]


@pytest.mark.parametrize(("name", "task"), ALL_TASKS)
def test_cosmetic_changes_keep_the_scene_and_its_words(name: str, task: str) -> None:
    seed = family(name).tasks[task].seed
    found = refuter.cosmetic(seed)
    assert len(found) == 2
    for axis, edit in found.items():
        assert axis_of(edit["path"]) == axis
        assert check_value(edit["path"], edit["value"], name) is None
        changed = write_factor(seed, edit["path"], tuple(edit["value"]))
        assert changed != seed
        assert reword(changed).tau.instruction == seed.tau.instruction


def test_a_fixture_whose_asset_is_blamed_has_a_placebo_too() -> None:
    seed = family("articulated").tasks["turn-knob"].seed
    edits = (
        Edit(path="tau.task", sampler=Fixed(value="turn-knob")),
        Edit(path="alpha.target.asset", sampler=Choice(values=("knob-low", "lever"))),
    )
    program = GenerationProgram(name="only assets", family="articulated", edits=edits)
    diagnosis = make_diagnosis(
        axis="asset", failed_stage="grasp", cure=revert(program, "asset", seed)
    )
    plan = refuter.design_controls(by_rules(), diagnosis, program, seed)
    assert [edit.path for edit in plan.placebo] == ["sigma.robot.xyz"]


@pytest.mark.parametrize(
    ("control", "placebo", "axis", "words"),
    [
        ("sigma.target.xy", "sigma.receptacle.xy", "goal", "not on the blamed axis yaw"),
        ("sigma.target.yaw", "sigma.target.yaw", "yaw", "placebo_axis is the blamed axis"),
        ("sigma.target.yaw", "sigma.receptacle.xy", "size", "not on placebo_axis size"),
        ("sigma.target.roll", "sigma.receptacle.xy", "goal", "no factor path"),
        ("sigma.target.yaw", "alpha.target.asset", "asset", "changes nothing"),
    ],
)
def test_controls_that_test_nothing_are_refused(
    control: str, placebo: str, axis: str, words: str
) -> None:
    values: dict[str, Any] = {
        "sigma.target.xy": [0.48, -0.1],
        "sigma.receptacle.xy": [0.48, 0.14],
        "alpha.target.asset": "block",
    }

    def edit(path: str) -> dict[str, Any]:
        return {"path": path, "sampler": {"kind": "fixed", "value": values.get(path, 0.0)}}

    answer = {
        "control": [edit(control)],
        "placebo": [edit(placebo)],
        "placebo_axis": axis,
        "reasoning": "none",
    }
    caller, _ = scripted(answer, answer, answer)
    with pytest.raises(NoAnswer, match=words):
        refuter.design_controls(caller, make_diagnosis(), SPLITS.program(["yaw"]), SEED)


def test_reverting_distractors_removes_them() -> None:
    program = SPLITS.program(["distractors"])
    cure = revert(program, "distractors", SEED)
    assert [(e.path, e.sampler) for e in cure] == [("tau.distractors", Fixed(value=0))]
    assert varied_paths(program, SEED)["distractors"] == ["tau.distractors"]


def plan_facts(**changes: Any) -> PlanFacts:
    fields: dict[str, Any] = {
        "round": 2,
        "rounds": 3,
        "programs": 6,
        "schedule": "adaptive",
        "band": (0.1, 0.9),
        "modes": (
            mode_facts("m001", "yaw", "training", 0.9, 0.4),
            mode_facts("m002", "goal", "parked", 0.8, 0.0),
            mode_facts("m003", "size", "training", 0.7, 0.0),
        ),
        "axes": (AxisFacts(axis="yaw", scenes=8, success=0.3, last_explored=1),),
    }
    return PlanFacts(**{**fields, **changes})


def mode_facts(mode_id: str, axis: Axis, status: Any, weight: float, last: float) -> ModeFacts:
    return ModeFacts(
        mode_id=mode_id, title=f"{axis} is hard", axis=axis, stage="grasp",
        mechanism="no-closure", status=status, weight=weight, last_success=last, trials=8,
    )  # fmt: skip


def test_the_plan_prefers_modes_in_the_band_and_unexplored_axes() -> None:
    plan = curriculum.plan_round(by_rules(), plan_facts())
    assert plan.decision == "continue"
    assert plan.focus_modes == ("m001", "m003")
    assert "yaw" not in plan.explore_axes
    assert plan.explore_share == "half"


def test_the_plan_obeys_directives() -> None:
    plan = curriculum.plan_round(
        by_rules(), plan_facts(open_axes=("size", "goal"), directives=("d001: stop",))
    )
    assert plan.focus_modes == ("m003",)
    assert set(plan.explore_axes) == {"size", "goal"}
    assert "d001: stop" in plan.rationale
    stop = curriculum.plan_round(by_rules(), plan_facts(stop_requested=True))
    assert (stop.decision, stop.focus_modes) == ("stop", ())


def test_the_first_plan_explores_everything_and_the_last_one_ends() -> None:
    first = curriculum.plan_round(by_rules(), plan_facts(round=1, modes=(), axes=()))
    assert (first.explore_share, len(first.explore_axes)) == ("all", 6)
    easy = tuple(AxisFacts(axis=axis, scenes=8, success=1.0, last_explored=1) for axis in AXES)
    done = (mode_facts("m001", "yaw", "mastered", 0.1, 1.0),)
    assert curriculum.plan_round(by_rules(), plan_facts(axes=easy, modes=done)).decision == "stop"
    fixed = plan_facts(axes=easy, modes=done, schedule="fixed")
    assert curriculum.plan_round(by_rules(), fixed).decision == "continue"


@pytest.mark.parametrize(
    ("focus", "axes", "share", "words"),
    [
        (["m009"], [], "none", "there is no mode 'm009'"),
        (["m002"], [], "none", "m002 is parked"),
        (["m001"], ["position"], "half", "a person closed position"),
        ([], [], "none", "nothing would be done"),
    ],
)
def test_plans_that_cannot_be_carried_out_are_refused(
    focus: list[str], axes: list[str], share: str, words: str
) -> None:
    answer = {
        "decision": "continue",
        "focus_modes": focus,
        "explore_axes": axes,
        "explore_share": share,
        "rationale": "because",
    }
    caller, _ = scripted(answer, answer, answer)
    facts = plan_facts(open_axes=tuple(a for a in AXES if a != "position"))
    with pytest.raises(NoAnswer, match=words):
        curriculum.plan_round(caller, facts)


def test_omega_keeps_the_blamed_axis_and_narrows_it_to_the_failures() -> None:
    program = SPLITS.program(["yaw", "size"])
    rng = np.random.default_rng(0)
    scenes = [sample_scene(program, rng) for _ in range(30)]
    failures = tuple(s for s in scenes if s.sigma.poses["target"].yaw > 0.5)
    mode = make_mode(omega_version=2)
    omega = compile_generation(mode, program, make_diagnosis(), failures=failures)
    assert omega.name == "m001-omega-v2"
    assert program_issues(omega) == ()
    yaw, scale = sampler_of(omega, "sigma.target.yaw"), sampler_of(omega, "alpha.target.scale")
    assert 0.45 < yaw.low < yaw.high <= 1.5708
    assert (scale.low, scale.high) == (0.97, 1.03)


def test_a_diagnosis_word_for_effect_is_in_the_answer_schema() -> None:
    assert set(critic.EFFECTS) == {"small", "medium", "large"}


def test_potentials_must_end_at_the_goal() -> None:
    base = base_program("pick-place")
    stages = base.stages[:4]
    total = sum(stage.share for stage in stages)
    cut = base.model_dump(mode="json") | {
        "stages": [
            stage.model_copy(update={"share": stage.share / total}).model_dump(mode="json")
            for stage in stages
        ]
    }
    caller, model = scripted({"program": cut}, {"program": base.model_dump(mode="json")})
    program = curriculum.compile_potential(caller, make_mode(), make_diagnosis(), base)
    assert program == base
    assert "must be entered by on(target, receptacle)" in str(model.prompts[1][-1].text)


def test_refinement_makes_the_failing_stage_steeper() -> None:
    base = base_program("pick-place")
    diagnosis = make_diagnosis(mechanism="no-closure", failed_stage="grasp")
    first = curriculum.compile_potential(by_rules(), make_mode(), diagnosis, base)
    stuck = [issue("no-learning-progress", "stages", "0/8 -> 0/8")]
    heard: list[str] = []
    second = curriculum.compile_potential(
        by_rules(), make_mode(), diagnosis, base, stuck, previous=first, on_call=heard.append
    )
    share = [{s.name: s.share for s in p.stages}["grasp"] for p in (base, first, second)]
    assert share[0] < share[1] < share[2]
    assert second.tools.lookahead_candidates == first.tools.lookahead_candidates + 8
    assert heard == ["r01:test#000"]
