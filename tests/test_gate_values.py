"""Odd values, types and sizes everywhere: a report, within a second, and never an exception."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from coda.sim.errors import SceneError
from coda.sim.families import FAMILIES
from coda.sim.gate import GATE_CODES
from coda.sim.gate_physics import physics_issues
from coda.sim.plain_data import NotPlain, read_json, read_yaml, shown
from coda.sim.scene import Scene
from tests.gate_world import (
    GATE,
    LIMIT_S,
    ODD,
    codes,
    leaves,
    put_at,
    report_of,
    seed,
    with_alpha,
)

# numbers and types


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
    assert read_yaml("{on: no, yes: off, y: TRUE, f: false}") == {
        "on": "no", "yes": "off", "y": True, "f": False,
    }  # fmt: skip
    assert read_yaml('{"a": 1}') == read_json('{"a": 1}') == {"a": 1}
    assert shown(shared(60)) == "a list"
    assert shown("x" * 1_000, 20) == "'xxxxxxxxxxxxxxxxxxx"
