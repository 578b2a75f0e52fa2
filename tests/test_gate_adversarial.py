"""Adversarial scenes: the right code, within a second, and never an exception."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from coda.sim.assets import ASSETS
from coda.sim.engine import BatchSim
from coda.sim.families import FAMILIES
from coda.sim.gate import summarise
from coda.sim.gate_checks import static_findings
from coda.sim.gate_physics import physics_issues
from coda.sim.gate_placement import GOAL_OPENING, check_placement
from coda.sim.roles import PLACED_ROLES, ROLES
from tests.gate_world import (
    GATE,
    TASKS,
    codes,
    edited,
    placed,
    seed,
    with_alpha,
    with_tau,
)

PAIRED = [t for t in TASKS if t[0] != "articulated"]
JOINTED = [t for t in TASKS if t[0] == "articulated"]


# placement, in every task


@pytest.mark.parametrize(("family", "task"), PAIRED)
def test_objects_inside_each_other(family: str, task: str) -> None:
    scene = seed(family, task)
    middle = scene.sigma.poses["receptacle"].xy
    assert "too-close" in codes(placed(scene, target=(middle[0] - 0.01, middle[1])))


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_out_of_reach_and_over_the_edge(family: str, task: str) -> None:
    scene = seed(family, task)
    for xy in ((0.81, 0.0), (0.5, 0.44), (0.5, -2.0), (-0.3, 0.0)):
        assert codes(placed(scene, target=xy)) == {"off-workspace"}
    issues = {issue.code for issue in physics_issues([placed(scene, target=(1.0, 0.0))])[0]}
    unreachable = "unreachable-handle" if family == "articulated" else "unreachable-grasp"
    assert unreachable in issues


def test_footprints_end_at_the_tables_edge() -> None:
    scene = placed(seed("put-inside", "bin"), receptacle=(0.76, 0.0))
    assert "off-table" in {one.issue.code for one in check_placement(scene)}


@pytest.mark.parametrize(("family", "task"), [*JOINTED, ("put-inside", "closed-drawer")])
def test_nothing_stands_in_the_way_of_what_opens(family: str, task: str) -> None:
    scene = edited(seed(family, task), tau__distractors=1)
    fixture = next(r for r in scene.roles if ASSETS[scene.alpha.objects[r].asset].joint)
    sim = BatchSim([scene])
    frame = sim.reset()
    start = frame.pos[0, ROLES.index("handle")]
    blocked = placed(scene, distractor_1=(float(start[0]), float(start[1])))
    found = [one for one in static_findings(blocked) if one.issue.code == "too-close"]
    assert found
    assert fixture in found[0].issue.value
    assert f"sigma.{fixture}.xy" in found[0].paths


def test_a_drawer_sweeps_the_table_before_it_and_a_plain_object_does_not() -> None:
    scene = edited(seed("articulated", "open-drawer"), tau__distractors=1)
    x, y = scene.sigma.poses["target"].xy
    half = ASSETS[scene.alpha.objects["target"].asset].half_size_m[0]
    before = placed(scene, distractor_1=(x - half - 0.06, y))
    behind = placed(scene, distractor_1=(x + half + 0.06, y))
    assert "too-close" in {one.issue.code for one in static_findings(before)}
    assert "too-close" not in {one.issue.code for one in static_findings(behind)}


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_the_robot_starts_clear_of_objects(family: str, task: str) -> None:
    scene = edited(seed(family, task), tau__distractors=1)
    tall = with_alpha(scene, "distractor-1", asset="milk", scale=1.9)
    robot = tall.sigma.robot.model_copy(update={"xyz": (0.42, 0.0, 0.16)})
    tall = tall.model_copy(update={"sigma": tall.sigma.model_copy(update={"robot": robot})})
    found = {one.issue.code for one in static_findings(placed(tall, distractor_1=(0.42, 0.02)))}
    assert found & {"start-blocked", "wrong-role-asset"}


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_what_a_tall_object_hides_is_noticed(family: str, task: str) -> None:
    scene = with_tau(seed(family, task), distractors=1)
    x, y = scene.sigma.poses["target"].xy
    wall = (
        seed("pick-place", "place")
        .alpha.objects["target"]
        .model_copy(update={"asset": "cereal", "scale": 2.0, "mass_kg": 2.0})
    )
    reach = ASSETS[scene.alpha.objects["target"].asset].half_size_m[0] + 0.045
    pose = scene.sigma.poses["target"].model_copy(update={"xy": (x + reach, y), "yaw": np.pi / 2})
    hidden = scene.model_copy(
        update={
            "sigma": scene.sigma.model_copy(
                update={"poses": {**scene.sigma.poses, "distractor-1": pose}}
            ),
            "alpha": scene.alpha.model_copy(
                update={"objects": {**scene.alpha.objects, "distractor-1": wall}}
            ),
        }
    )
    found = {issue.code for issue in physics_issues([hidden])[0]}
    assert "hidden" in found


# goals


@pytest.mark.parametrize(("family", "task"), JOINTED)
def test_a_fixture_that_starts_at_its_goal_is_solved_at_reset(family: str, task: str) -> None:
    scene = seed(family, task)
    done = with_tau(scene, opening=GOAL_OPENING[scene.tau.goal.relation])
    assert codes(done) == {"value-range"}
    issues = physics_issues([done])[0]
    assert [(issue.code, issue.path) for issue in issues] == [("solved-at-reset", "tau.opening")]


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_the_goal_opening_is_the_engines(family: str, task: str) -> None:
    scene = seed(family, task)
    frame = BatchSim([scene]).reset()
    if frame.joint_kind[0] > 0:
        assert frame.joint_goal[0] == GOAL_OPENING.get(scene.tau.goal.relation, 1.0)


@pytest.mark.parametrize("task", list(FAMILIES["put-inside"].tasks))
def test_what_is_too_large_for_its_container_does_not_fit(task: str) -> None:
    scene = with_alpha(seed("put-inside", task), "receptacle", scale=0.5)
    narrow = with_alpha(scene, "target", asset="block", scale=1.9)
    found = codes(narrow)
    assert "no-fit" in found
    assert found <= {"no-fit", "too-close", "instruction", "start-blocked", "off-table"}


@pytest.mark.parametrize("task", ["peg-in-hole", "nut-on-peg"])
def test_what_is_too_large_for_its_hole_does_not_fit(task: str) -> None:
    scene = seed("stack-insert", task)
    role, scale = ("target", 1.9) if task == "peg-in-hole" else ("receptacle", 1.9)
    issues = physics_issues([with_alpha(scene, role, scale=scale)])[0]
    assert {"no-fit", "goal-not-recognised"} & {issue.code for issue in issues}


@pytest.mark.parametrize(("family", "task"), TASKS)
@pytest.mark.parametrize("relation", ["on", "inside", "inserted", "open", "closed"])
def test_impossible_relations_are_not_the_tasks_goal(family: str, task: str, relation: str) -> None:
    scene = seed(family, task)
    if relation == scene.tau.goal.relation:
        assert codes(scene) == set()
    else:
        goal = scene.tau.goal.model_copy(update={"relation": relation})
        assert "goal-mismatch" in codes(with_tau(scene, goal=goal))


# names and roles


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_names_that_do_not_exist(family: str, task: str) -> None:
    scene = seed(family, task)
    assert codes(with_tau(scene, family="x" * 100_000)) == {"schema"}
    assert codes(with_tau(scene, family="y" * 50_000)) == {"unknown-family"}
    assert codes(with_tau(scene, family="pick-plaice")) == {"unknown-family"}
    assert codes(with_tau(scene, task="juggle")) == {"unknown-task"}
    assert codes(with_tau(scene, task="z" * 50_000)) == {"unknown-task"}
    assert codes(with_alpha(scene, "target", asset="sofa")) == {"unknown-asset"}
    assert codes(with_alpha(scene, "target", asset="plate")) == {"wrong-role-asset"}


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_a_scene_has_exactly_its_tasks_roles(family: str, task: str) -> None:
    data = seed(family, task).model_dump(mode="json")
    for role in PLACED_ROLES:
        if role.startswith("distractor"):
            continue
        other = copy.deepcopy(data)
        if role in data["sigma"]["poses"]:
            del other["sigma"]["poses"][role], other["alpha"]["objects"][role]
            assert codes(other) == ({"schema"} if role == "target" else {"role-absent"})
        else:
            other["sigma"]["poses"][role] = {"xy": [0.4, 0.2]}
            other["alpha"]["objects"][role] = {"asset": "cube"}
            assert codes(other) == {"role-extra"}
    data["sigma"]["poses"]["handle"] = {"xy": [0.4, 0.2]}
    data["alpha"]["objects"]["handle"] = {"asset": "cube"}
    assert codes(data) == {"schema"}


# counts


def test_a_summary_counts_codes_and_the_verification_rate() -> None:
    scene = seed("pick-place", "place")
    bad = [placed(scene, target=(0.9, 0.0)), with_tau(scene, task="x"), with_tau(scene, task="y")]
    reports = GATE.check([scene, *bad])
    summary = summarise(reports, [reports[1].issues])
    assert (summary.proposed, summary.accepted, summary.rate) == (5, 1, 0.2)
    assert dict(summary.codes) == {"off-workspace": 2, "unknown-task": 2}
    assert summary.seconds == sum(report.seconds for report in reports)
    assert summary.line() == (
        "verification rate: 1 of 5 accepted (20%); refused by code: 2 off-workspace, 2 unknown-task"
    )
    assert summarise([]).rate == 1.0
    assert summarise([]).line() == "verification rate: 0 of 0 accepted (100%)"
