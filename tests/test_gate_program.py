"""The gate on generation programs: right code, never a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda.sim.families import FAMILIES
from coda.sim.gate import GATE_CODES, Gate
from coda.sim.gate_codes import make_issue
from coda.sim.program import GenerationProgram, Issue
from coda.sim.splits import Splits

GATE = Gate(Splits())


def data(*edits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "t", "family": "pick-place", "edits": list(edits)} | more


def stack(*edits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return data(*edits, family="stack-insert", **more)


def fixture(*edits: dict[str, Any]) -> dict[str, Any]:
    return data(*edits, family="articulated")


def task(*names: str) -> dict[str, Any]:
    return edit("tau.task", "choice", values=list(names))


def edit(path: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"path": path, "sampler": {"kind": kind, **fields}}


def codes(source: Any) -> list[str]:
    result = GATE.check_program(source)
    if isinstance(result, GenerationProgram):
        return []
    return [issue.code for issue in result]


REFERENCES = [
    program
    for name in FAMILIES
    for program in (Splits(family=name).seed_program(), Splits(family=name).wide_program())
]


@pytest.mark.parametrize("source", REFERENCES, ids=lambda p: f"{p.family}: {p.name}")
def test_reference_programs_pass_in_every_form(source: GenerationProgram) -> None:
    for form in (source, source.model_dump(), source.model_dump_json()):
        assert GATE.check_program(form) == source


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("", "not-json"),
        ("nonsense", "not-json"),
        ("[1, 2]", "not-json"),
        ("NaN", "not-json"),
        ("[" * 50_000, "not-json"),
        ("x" * 200_000, "not-json"),
        ("{}", "schema"),
        (data(extra=1), "schema"),
        (data(schema_version=2), "schema"),
        (data(*[edit("sigma.target.yaw", "fixed", value=0.0)] * 1000), "schema"),
        ('{"name": "t", "family": "pick-place", "edits": [{"path": "sigma.target.yaw", '
         '"sampler": {"kind": "uniform", "low": NaN, "high": 1}}]}', "schema"),
        (data(edit("sigma.target.yaw", "fixed", value=1e30)), "schema"),
        (data(edit("sigma.target.yaw", "gaussian", mean=0)), "schema"),
        ({**data(), "family": "pick-plaice"}, "unknown-family"),
        (data(edit("sigma.target.z", "fixed", value=0.0)), "unknown-path"),
        (data(edit("__class__", "fixed", value="os.system")), "unknown-path"),
        (data(*[edit("sigma.target.yaw", "fixed", value=0.0)] * 2), "duplicate-path"),
        (data(edit("sigma.target.yaw", "fixed", value="left")), "value-type"),
        (data(edit("sigma.target.xy", "fixed", value=0.4)), "value-type"),
        (data(edit("alpha.target.asset", "uniform", low=0, high=1)), "value-type"),
        (data(edit("alpha.target.asset", "fixed", value="sofa")), "value-type"),
        (data(edit("alpha.target.scale", "polar", center=[0, 0], radius=[0, 1], angle=[0, 1])),
         "value-type"),
        (data(edit("tau.distractors", "fixed", value=1000)), "value-range"),
        (data(edit("tau.distractors", "fixed", value=10**300)), "value-range"),
        (data(edit("alpha.target.mass_kg", "uniform", low=0.1, high=90)), "value-range"),
        (data(edit("sigma.target.xy", "uniform", low=[0.4, 0.0], high=[9, 0.1])), "value-range"),
        (data(edit("alpha.target.scale", "uniform", low=1.2, high=0.8)), "bad-sampler"),
        (data(edit("alpha.target.asset", "choice", values=["cube"], weights=[0])), "bad-sampler"),
        (data(edit("alpha.target.scale", "normal", mean=1, std=1, low=1.2, high=0.9)),
         "bad-sampler"),
        (data(edit("sigma.receptacle.xy", "relative-to-role", role="receptacle",
                   radius=[0.1, 0.2])), "bad-sampler"),
        (data(edit("sigma.receptacle.xy", "relative-to-role", role="target",
                   radius=[-0.1, 0.2])), "bad-sampler"),
        (data(edit("sigma.distractor-1.yaw", "fixed", value=0.0)), "role-absent"),
        (data(edit("sigma.target.xy", "relative-to-role", role="distractor-1",
                   radius=[0.1, 0.2])), "role-absent"),
        (data(constraints=[{"kind": "min-separation", "roles": ["target", "distractor-1"],
                            "distance_m": 0.1}]), "role-absent"),
        (data(edit("sigma.receptacle.xy", "relative-to-role", role="target", radius=[0.2, 0.3]),
              edit("sigma.target.xy", "fixed", value=[0.4, 0.0])), "edit-order"),
        (data(edit("sigma.distractor-1.yaw", "fixed", value=0.0),
              edit("tau.distractors", "fixed", value=1)), "edit-order"),
        (stack(edit("sigma.target.yaw", "fixed", value=0.0), task("stack-two")), "edit-order"),
        (stack(task("stack-four")), "value-type"),
        (stack(edit("tau.task", "uniform", low=0, high=1)), "value-type"),
        (data(task("place")), "unknown-path"),
        (data(edit("sigma.support.xy", "fixed", value=[0.5, 0.0])), "role-absent"),
        (stack(edit("sigma.support.xy", "fixed", value=[0.5, 0.0])), "role-absent"),
        (stack(task("stack-two", "nut-on-peg"), edit("sigma.support.xy", "fixed", value=[0.5, 0])),
         "role-absent"),
        (stack(task("stack-two"), constraints=[{"kind": "min-separation", "distance_m": 0.1,
                                                "roles": ["target", "support"]}]), "role-absent"),
        (stack(task("stack-two"), edit("alpha.target.asset", "fixed", value="nut-round")),
         "value-type"),
        (fixture(edit("tau.opening", "fixed", value=0.95)), "value-range"),
        (fixture(task("close-door"), edit("tau.opening", "fixed", value=0.0)), "value-range"),
        (fixture(edit("alpha.target.damping", "fixed", value=100.0)), "value-range"),
        (data(edit("tau.opening", "fixed", value=0.5)), "unknown-path"),
        (data(edit("alpha.target.damping", "fixed", value=1.0)), "unknown-path"),
    ],
)  # fmt: skip
def test_each_fault_has_its_code(source: Any, code: str) -> None:
    assert code in codes(source)


@pytest.mark.parametrize(
    "source",
    [
        stack(task("stack-two", "stack-three"), edit("sigma.support.xy", "fixed", value=[0.5, 0])),
        stack(task("stack-two", "nut-on-peg"),
              edit("alpha.target.asset", "choice", values=["cube", "nut-round"])),
        fixture(task("open-door", "close-door"), edit("tau.opening", "uniform", low=0, high=1)),
        fixture(edit("tau.opening", "fixed", value=0.4)),
        data(edit("sigma.robot.yaw", "fixed", value=0.4)),
    ],
)  # fmt: skip
def test_what_some_drawable_task_has_is_sound(source: Any) -> None:
    assert codes(source) == []


def test_every_issue_says_path_value_limit_and_remedy() -> None:
    result = GATE.check_program(data(edit("alpha.target.scale", "fixed", value=5)))
    assert not isinstance(result, GenerationProgram)
    assert result[0].line() == (
        "value-range: edits.0.sampler.value (alpha.target.scale) = 5 "
        "(allowed: a number from 0.5 to 2); choose a value in the allowed range"
    )


def test_an_unknown_path_lists_near_ones() -> None:
    result = GATE.check_program(data(edit("sigma.target.angle", "fixed", value=0.0)))
    assert not isinstance(result, GenerationProgram)
    assert result[0].limit.startswith("did you mean sigma.target.yaw")


def test_schema_issues_are_few_and_short() -> None:
    edits = [edit("sigma.target.yaw", "fixed", value=None, junk="x" * 5000) for _ in range(30)]
    result = GATE.check_program(data(*edits))
    assert not isinstance(result, GenerationProgram)
    assert 1 <= len(result) <= 8
    assert all(len(issue.line()) < 800 for issue in result)
    assert all("constrained" not in issue.path for issue in result)


def test_codes_are_documented() -> None:
    assert all(text.endswith(".") for text in GATE_CODES.values())
    with pytest.raises(KeyError):
        make_issue("no-such-code", "", "", "", "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ("kind", "value", "values", "low", "high", "mean", "std", "role", "radius", "weights")
ODD_SAMPLER = st.fixed_dictionaries(
    {"kind": st.sampled_from(["fixed", "choice", "uniform", "normal", "mixture", "polar", 3])},
    optional={key: JSON for key in KEYS[1:]},
)


@settings(max_examples=150, deadline=None)
@given(
    edits=st.lists(
        st.fixed_dictionaries(
            {
                "path": st.sampled_from(["sigma.target.xy", "tau.distractors", "tau.task", "x"])
                | JSON
            },
            optional={"sampler": ODD_SAMPLER | JSON},
        ),
        max_size=4,
    ),
    family=st.sampled_from(sorted(FAMILIES)),
)
def test_no_program_crashes_the_gate(edits: list[dict[str, Any]], family: str) -> None:
    for source in (data(*edits, family=family), json.dumps(data(*edits, family=family))):
        result = GATE.check_program(source)
        if not isinstance(result, GenerationProgram):
            assert result
            assert all(isinstance(issue, Issue) and issue.code in GATE_CODES for issue in result)
