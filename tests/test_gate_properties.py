"""Properties of the gate: any change gets an answer; what it accepts stands still, unsolved."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coda.sim.engine import ACTION_DIM, BatchSim
from coda.sim.families import FAMILIES
from coda.sim.gate import GATE_CODES
from coda.sim.gate_checks import carried
from coda.sim.program import GenerationProgram
from coda.sim.roles import ROLES
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from tests.gate_world import (
    GATE,
    LIMIT_S,
    ODD,
    TASKS,
    leaves,
    report_of,
    seed,
)
from tests.program_strategies import programs

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
