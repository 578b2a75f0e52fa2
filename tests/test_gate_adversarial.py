"""Adversarial scenes and programs: the right code, within a second, and never an exception."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda.sim.assets import ASSETS
from coda.sim.engine import ACTION_DIM, BatchSim
from coda.sim.errors import SceneError
from coda.sim.families import FAMILIES
from coda.sim.gate import GATE_CODES, Gate, GateReport, summarise
from coda.sim.gate_checks import carried, static_findings
from coda.sim.gate_physics import physics_issues
from coda.sim.gate_placement import GOAL_OPENING
from coda.sim.paths import apply_edits
from coda.sim.plain_data import NotPlain, read_json, read_yaml, shown
from coda.sim.program import Edit, Fixed, GenerationProgram
from coda.sim.roles import PLACED_ROLES, ROLES
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from tests.program_strategies import programs

GATE = Gate()
TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]
PAIRED = [t for t in TASKS if t[0] != "articulated"]
JOINTED = [t for t in TASKS if t[0] == "articulated"]
LIMIT_S = 1.0
ODD: tuple[Any, ...] = (
    float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 1e-30, 10**400, -(10**400), 0, -1,
    True, None, "far", "x" * 10_000, [], [1.0] * 50, {}, {"a": {"b": []}}, [[[[[[]]]]]],
)  # fmt: skip


def seed(family: str, task: str) -> Scene:
    return FAMILIES[family].tasks[task].seed


def edited(scene: Scene, **values: Any) -> Scene:
    """A scene with path=value; ``__`` is a dot, ``distractor_1`` a role."""
    edits = []
    for key, value in values.items():
        path = key.replace("__", ".").replace("distractor_", "distractor-")
        edits.append(Edit(path=path, sampler=Fixed(value=value)))
    return apply_edits(scene, edits, np.random.default_rng(0))


def placed(scene: Scene, **where: tuple[float, float]) -> Scene:
    """A scene with roles elsewhere, whatever is allowed; ``distractor_1`` is a role."""
    new = {role.replace("_", "-"): xy for role, xy in where.items()}
    poses = {
        role: pose.model_copy(update={"xy": new.get(role, pose.xy)})
        for role, pose in scene.sigma.poses.items()
    }
    return scene.model_copy(update={"sigma": scene.sigma.model_copy(update={"poses": poses})})


def with_alpha(scene: Scene, role: Any, **fields: Any) -> Scene:
    objects = dict(scene.alpha.objects)
    objects[role] = objects[role].model_copy(update=fields)
    alpha = scene.alpha.model_copy(update={"objects": objects})
    return scene.model_copy(update={"alpha": alpha})


def with_tau(scene: Scene, **fields: Any) -> Scene:
    return scene.model_copy(update={"tau": scene.tau.model_copy(update=fields)})


def report_of(item: Any) -> GateReport:
    """The gate's full answer, which comes in time whatever it is asked."""
    start = time.process_time()
    report = GATE.check([item])[0]
    assert time.process_time() - start < LIMIT_S
    assert all(issue.code in GATE_CODES for issue in report.issues)
    assert all(len(issue.line()) < 1500 for issue in report.issues)
    return report


def codes(item: Any) -> set[str]:
    return {issue.code for issue in report_of(item).issues}


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
    from coda.sim.gate_placement import check_placement

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


# numbers and types


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every value of nested data, containers included."""
    if path:
        yield path
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items if isinstance(data, dict | list) else ():
        if isinstance(value, dict | list):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def put_at(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A deep copy of data with a value at a path."""
    new = copy.deepcopy(data)
    place = new
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return new


@pytest.mark.parametrize("family", list(FAMILIES))
def test_odd_values_in_every_field_never_pass_as_something_else(family: str) -> None:
    data = FAMILIES[family].seed.model_dump(mode="json")
    items = [put_at(data, path, value) for path in leaves(data) for value in ODD]
    start = time.process_time()
    reports = GATE.check(items, deep=False)
    assert time.process_time() - start < 0.02 * len(items)
    for item, report in zip(items, reports, strict=True):
        assert all(issue.code in GATE_CODES for issue in report.issues)
        if report.accepted and report.scene is not None:
            assert report.scene == Scene.model_validate(item)
            assert json.loads(report.scene.canonical()) is not None
    passed = [r.scene for r in reports if r.accepted and r.scene is not None]
    assert len(passed) < 0.2 * len(items)
    for report in GATE.check(passed[:: max(1, len(passed) // 12)]):
        assert all(issue.code in GATE_CODES for issue in report.issues)


@pytest.mark.parametrize("value", ODD[:6], ids=str)
@pytest.mark.parametrize("field", ["mass_kg", "friction", "scale", "damping"])
def test_extreme_attributes_of_unvalidated_records(field: str, value: float) -> None:
    for family, task, role in (
        ("articulated", "open-lid", "target"), ("put-inside", "drawer", "receptacle")
    ):  # fmt: skip
        scene = with_alpha(seed(family, task), role, **{field: value})
        assert codes(scene) in ({"schema"}, {"value-range"})


@pytest.mark.parametrize("size", [0.0, -1.0, 1e-30])
def test_zero_sizes(size: float) -> None:
    scene = seed("stack-insert", "stack-two")
    assert codes(with_alpha(scene, "target", scale=size)) <= {"schema", "value-range"}
    assert codes(with_alpha(scene, "receptacle", scale=size))


@pytest.mark.parametrize("opacity", [0.0, 1e-30, 0.2])
def test_an_invisible_target_is_hidden(opacity: float) -> None:
    scene = seed("pick-place", "place")
    clear = with_alpha(scene, "target", rgba=(0.8, 0.12, 0.1, opacity))
    assert codes(clear) == {"hidden"}
    gone = with_alpha(scene, "target", rgba=(0.8, 0.12, 0.1, 0.0))
    assert "hidden" in {issue.code for issue in physics_issues([gone])[0]}


def test_records_built_without_validation() -> None:
    scene = seed("pick-place", "place")
    loop = Scene.model_construct(tau=scene.tau, sigma=scene.sigma, alpha=scene.alpha, nu=None)
    object.__setattr__(loop, "nu", loop)
    items: list[Any] = [
        Scene.model_construct(),
        Scene.model_construct(tau=5, sigma=[], alpha=None, nu="x"),
        Scene.model_construct(tau=scene.tau, sigma=object(), alpha={1: 2}, nu=np.zeros(3)),
        Scene.model_construct(**{**dict(scene), "sigma": {"poses": {"target": {"xy": (1, 2)}}}}),
        loop,
    ]
    assert [codes(item) for item in items] == [{"schema"}] * len(items)


@pytest.mark.parametrize(
    "item", [None, 5, 2.5, True, b"{}", [], [1], (), object(), np.zeros(3), {1: 2}, {"a": {3}}],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_what_is_no_scene_at_all(item: Any) -> None:
    assert codes(item) == {"schema"}
    program = GATE.check_program(item)
    assert isinstance(program, tuple)
    assert {issue.code for issue in program} <= {"schema", "not-json"}


# size


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


def shared(levels: int) -> Any:
    """Small in memory, huge when written out."""
    value: Any = ["ha"] * 10
    for _ in range(levels):
        value = [value] * 10
    return value


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [ha, ha]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb(40),
        "tau: &a [*a]",
        "tau: !!python/object/apply:os.system [echo]",
        "tau: !!timestamp x",
        "tau: 2001-99-99",
        "tau: " + "1" * 5_000,
        "tau: 0x_",
        "[" * 20_000,
        "{" * 20_000,
        "- " * 9_000,
        "? " * 9_000,
        "'" * 19_999,
        "tau: 1\ntau: 2",
        "x" * 10_000_000,
        "\x00",
        "\ud800",
        "---\n" * 5_000,
    ],
    ids=lambda t: repr(t[:12]),
)
def test_texts_that_blow_up(text: str) -> None:
    assert codes(text) == {"schema"}
    with pytest.raises(SceneError):
        Scene.from_text(text)


def test_a_role_written_twice_is_refused() -> None:
    text = seed("pick-place", "place").canonical()
    twice = text.replace('"poses":{', '"poses":{"target":{"xy":[0.4,0.0],"yaw":0.0},')
    assert json.loads(twice)["sigma"]["poses"]["target"]["xy"] == [0.48, -0.1]
    issues = report_of(twice).issues
    assert [issue.code for issue in issues] == ["schema"]
    assert "the key 'target' is written twice" in issues[0].value


def test_thousands_of_objects() -> None:
    data = seed("pick-place", "place").model_dump(mode="json")
    for count in (8, 1_000, 100_000):
        poses = {f"target-{k}": {"xy": [0.4, 0.0]} for k in range(count)}
        crowd = put_at(data, ("sigma", "poses"), {**data["sigma"]["poses"], **poses})
        assert codes(crowd) == {"schema"}
    terms = data["nu"]["terms"]
    assert codes(put_at(data, ("nu", "terms"), terms * 300)) == {"verifier-mismatch"}
    assert codes(put_at(data, ("nu", "terms"), terms * 30_000)) == {"schema"}
    assert codes(put_at(data, ("tau",), deep(10_000))) == {"schema"}
    assert codes(put_at(data, ("tau",), shared(60))) == {"schema"}
    assert codes(put_at(data, ("tau", "instruction"), "x" * 10_000_000)) == {"schema"}


def test_thousands_of_edits() -> None:
    edit = {"path": "sigma.target.yaw", "sampler": {"kind": "fixed", "value": 0.0}}
    base = {"name": "t", "family": "pick-place"}
    crowd = [{**edit, "path": f"sigma.distractor-{k}.yaw"} for k in range(1_000)]
    for edits in (crowd, [edit] * 100_000, deep(5_000), shared(60), "x" * 10_000_000):
        start = time.process_time()
        result = GATE.check_program({**base, "edits": edits})
        assert time.process_time() - start < LIMIT_S
        assert isinstance(result, tuple)
        assert {issue.code for issue in result} == {"schema"}
    twice = '{"name": "t", "name": "u", "family": "pick-place"}'
    found = GATE.check_program(twice)
    assert isinstance(found, tuple)
    assert found[0].code == "not-json"


def test_errors_of_plain_data_are_one_line() -> None:
    with pytest.raises(NotPlain, match=r"^the alias \*a0 is not allowed; write the value out\.$"):
        read_yaml(bomb(3))
    with pytest.raises(NotPlain, match=r"^a text of 100001 characters; allowed: at most 100000\."):
        read_json("x" * 100_001)
    with pytest.raises(NotPlain, match=r"^'nonsense' is not valid JSON: Expecting value"):
        read_json("nonsense")
    with pytest.raises(NotPlain, match=r"^the key 1 is not a text; write names as text\.$"):
        read_yaml("1: 2")
    assert read_yaml("a: [1, 2.5, x, true, null]") == {"a": [1, 2.5, "x", True, None]}
    assert read_yaml('{"a": 1}') == read_json('{"a": 1}') == {"a": 1}
    assert shown(shared(60)) == "a list"
    assert shown("x" * 1_000, 20) == "'xxxxxxxxxxxxxxxxxxx"


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
        "verification rate: 1 of 5 accepted (20%); "
        "rejections by code: off-workspace 2, unknown-task 2"
    )
    assert summarise([]).rate == 1.0
    assert summarise([]).line().endswith("rejections by code: none")


# properties

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
DUMPS = [seed(*task).model_dump(mode="json") for task in TASKS]
PROGRAMS = [
    json.loads(program.model_dump_json())
    for name in FAMILIES
    for program in (Splits(name).seed_program(), Splits(name).wide_program())
]


@st.composite
def mutated(draw: st.DrawFn, sources: list[Any]) -> Any:
    """Valid data with one to three values replaced, removed, or added."""
    data = copy.deepcopy(draw(st.sampled_from(sources)))
    for _ in range(draw(st.integers(1, 3))):
        paths = list(leaves(data))
        path = draw(st.sampled_from(paths))
        place = data
        for key in path[:-1]:
            place = place[key]
        action = draw(st.sampled_from(["replace", "odd", "remove", "add", "swap"]))
        if action == "remove":
            del place[path[-1]]
        elif action == "add" and isinstance(place, dict):
            place[draw(st.text(max_size=6))] = draw(JSON)
        elif action == "swap":
            other = draw(st.sampled_from(paths))
            found: Any = data
            for key in other:
                found = found[key] if _has(found, key) else None
            place[path[-1]] = copy.deepcopy(found)
        else:
            place[path[-1]] = draw(st.sampled_from(ODD) if action == "odd" else JSON)
        if not data:
            break
    return data


def _has(place: Any, key: Any) -> bool:
    if isinstance(place, dict):
        return key in place
    return isinstance(place, list) and isinstance(key, int) and key < len(place)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=mutated(DUMPS))
def test_any_change_of_a_valid_scene_gets_a_report(data: Any) -> None:
    report = report_of(data)
    assert report.accepted == (not report.issues)
    if report.scene is not None:
        assert isinstance(report.scene, Scene)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=mutated(PROGRAMS))
def test_any_change_of_a_valid_program_gets_an_answer(data: Any) -> None:
    start = time.process_time()
    result = GATE.check_program(data)
    assert time.process_time() - start < LIMIT_S
    if isinstance(result, GenerationProgram):
        drawn(result, 0)
    else:
        assert all(issue.code in GATE_CODES for issue in result)


def drawn(program: GenerationProgram, seed: int) -> Scene | None:
    """A scene of a program, or None where the sampler says why there is none."""
    try:
        return sample_scene(program, np.random.default_rng(seed))
    except Rejected as rejected:
        why = rejected.issues
    assert why
    return None


@settings(max_examples=12, deadline=None, derandomize=True)
@given(program=programs(), draw=st.integers(0, 1_000))
def test_accepted_scenes_stand_still_and_are_not_solved(
    program: GenerationProgram, draw: int
) -> None:
    scene = drawn(program, draw)
    if scene is None or not report_of(scene).accepted:
        return
    sim = BatchSim([scene])
    before = sim.reset()
    actions = np.zeros((1, 16, ACTION_DIM))
    actions[:, :, 6] = -1.0
    result = sim.step_chunk(actions, keep=True)
    assert result.steps[0] == 16
    assert not result.success[0]
    assert not result.crashed[0]
    for frame in result.frames:
        assert np.isfinite(frame.pack()).all()
    assert not sim.verified_now()[0]
    after = result.frame
    assert np.abs(after.pos - before.pos).max() < 0.01
    assert abs(float(after.opening[0] - before.opening[0])) < 0.03
    for subject, reference in carried(scene):
        apart = before.pos[0, ROLES.index(subject)] - before.pos[0, ROLES.index(reference)]
        assert np.linalg.norm(apart[:2]) > 0.02
