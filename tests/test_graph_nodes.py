"""Parts of the nodes that need no simulator: routes, slots, groups, and the journal's wrapper."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coda.graphs.artifacts import BuiltProgram
from coda.graphs.coevolution import (
    after_diagnose,
    after_measure,
    after_plan,
    after_rollout,
    mermaid,
)
from coda.graphs.deps import Deps
from coda.graphs.events import RunEvent
from coda.graphs.measuring import balanced
from coda.graphs.nodes_diagnose import FailureGroup, choose_groups
from coda.graphs.nodes_plan import adaptive_updates, apportion, magnitude_of
from coda.graphs.nodes_train import rollouts_like
from coda.graphs.state import NODES, RoundState, RoundUpdate, Slot
from coda.graphs.work import Work, journaled
from coda.memory.rows import DecisionRow, NodeRunRow
from coda.memory.rundb import RunDb
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.sim.families import program_task
from coda.sim.roles import Axis
from coda.sim.splits import Splits, evaluation_set
from coda.tools.collecting import Target


@pytest.mark.parametrize(
    ("route", "state", "target"),
    [
        (after_plan, {"stop": ""}, "build"),
        (after_plan, {"stop": "all rounds are done"}, "__end__"),
        (after_rollout, {"failures": 3}, "diagnose"),
        (after_rollout, {"failures": 0}, "compile"),
        (after_diagnose, {"diagnosed": {"r01:d01": "r01:p01"}}, "refute"),
        (after_diagnose, {"diagnosed": {}}, "compile"),
        (after_measure, {"stop": ""}, "plan"),
    ],
)
def test_routes(route: Any, state: RoundState, target: str) -> None:
    assert route(state) == target


def test_the_drawing_shows_every_node_and_the_loop() -> None:
    drawing = mermaid()
    assert all(f"\t{name}({name})" in drawing for name in NODES)
    assert "measure -.-> plan" in drawing.replace(";", "")


def test_langgraphs_own_tools_find_the_graph() -> None:
    config = json.loads((Path(__file__).parents[1] / "langgraph.json").read_text(encoding="utf-8"))
    module, _, name = config["graphs"]["coevolution"].partition(":")
    assert "/" not in module  # a file path would load every class twice
    graph = getattr(importlib.import_module(module), name)()
    assert set(NODES) <= set(graph.get_graph().nodes)


def test_seats_go_by_weight() -> None:
    assert apportion([3.0, 1.0], 4) == [3, 1]
    assert apportion([1.0, 1.0, 1.0], 2) == [1, 1, 0]
    assert apportion([0.0, 0.0], 2) == [0, 0]
    assert apportion([], 2) == []


def test_the_adaptive_schedule_trains_longer_where_it_helps() -> None:
    assert adaptive_updates(1000, [0.0, -0.2]) == 750
    assert adaptive_updates(1000, [0.1]) == 1000
    assert adaptive_updates(1000, [0.9, 0.3]) == 1250


def test_a_part_of_the_evaluation_is_balanced_over_its_axes() -> None:
    axes = evaluation_set("ood").axis
    counts = Counter(axes[i] for i in balanced(axes, 64))
    assert set(counts.values()) == {8}
    assert balanced(axes, 10_000) == list(range(len(axes)))


def group(name: str, axis: Axis, failures: int) -> FailureGroup:
    slot = Slot(
        task="place",
        joined=[],
        slot_id=name,
        kind="explore",
        mode_id=None,
        axis=axis,
        magnitude="medium",
        last_success=None,
    )
    built = BuiltProgram(program_id=name, slot=slot, program=Splits().program((axis,)), scenes=())
    return FailureGroup(
        built=built,
        trials=cast(Any, tuple(SimpleNamespace(success=False) for _ in range(failures))),
    )


def test_each_axis_is_diagnosed_once_before_any_twice() -> None:
    groups = [group("a", "yaw", 9), group("b", "yaw", 8), group("c", "size", 2)]
    assert [g.built.program_id for g in choose_groups(groups, 2)] == ["a", "c"]
    assert [g.built.program_id for g in choose_groups(groups, 9)] == ["a", "c", "b"]


def test_a_target_knows_the_rollouts_on_scenes_like_its_own() -> None:
    def seen(name: str, axis: Axis, task: str) -> FailureGroup:
        made = group(name, axis, 0)
        slot = Slot(**{**made.built.slot, "task": task})
        trial = cast(Any, SimpleNamespace(episode=name))
        return replace(made, built=replace(made.built, slot=slot), trials=(trial,))

    axes: tuple[Axis, ...] = ("yaw",)
    program, base = Splits().program(axes), Potential(base_program("pick-place"))
    task = program_task(program).name
    groups = [seen("a", "yaw", task), seen("b", "yaw", "another"), seen("c", "size", task)]
    modes = cast(Any, [SimpleNamespace(mode_id="m001", axis="yaw")])

    def like(label: str) -> tuple[object, ...]:
        return rollouts_like(Target(label=label, program=program, potential=base), modes, groups)

    assert like("m001") == ("a",)  # its axis and its task
    assert like("b") == ("b",)  # an explored program knows its own
    assert like("known mass") == ()


@pytest.fixture
def deps(tmp_path: Path) -> Iterator[Deps]:
    heard: list[RunEvent] = []
    with RunDb(tmp_path / "run.db") as db:
        yield cast(Deps, SimpleNamespace(db=db, on_event=heard.append, heard=heard))


def test_a_finished_node_is_not_run_again(deps: Deps) -> None:
    runs: list[str] = []

    def node(work: Work, state: RoundState) -> RoundUpdate:
        runs.append(work.key)
        return {"failures": state.get("failures", 0) + 1}

    wrapped = journaled("rollout", node, lambda: deps)
    assert wrapped({"round": 2}) == wrapped({"round": 2}) == {"failures": 1}
    assert runs == ["r02:rollout"]


def test_plan_belongs_to_the_round_that_it_plans(deps: Deps) -> None:
    journaled("plan", lambda work, state: {"round": work.round}, lambda: deps)({"round": 1})
    assert [row.node_key for row in deps.db.rows(NodeRunRow)] == ["r02:plan"]


def test_what_an_interrupted_node_wrote_is_gone(deps: Deps) -> None:
    attempts: list[int] = []

    def node(work: Work, state: RoundState) -> RoundUpdate:
        attempts.append(len(attempts))
        work.decide("test", f"attempt {len(attempts)}", "rule:test")
        if len(attempts) == 1:
            raise KeyboardInterrupt
        return {}

    wrapped = journaled("train", node, lambda: deps)
    with pytest.raises(KeyboardInterrupt):
        wrapped({"round": 1})
    wrapped({"round": 1})
    assert [row.text for row in deps.db.rows(DecisionRow)] == ["attempt 2"]
    assert [row.status for row in deps.db.rows(NodeRunRow)] == ["done"]


@pytest.mark.parametrize(
    ("last", "again", "far"),
    [
        (None, False, "large"),
        (None, True, "medium"),
        (0.0, False, "small"),
        (0.0, True, "medium"),
        (0.5, False, "medium"),
        (0.5, True, "large"),
        (0.9, False, "large"),
    ],
)
def test_exploration_goes_far_first_and_closer_where_nothing_succeeds(
    last: float | None, again: bool, far: str
) -> None:
    assert magnitude_of(last, (0.1, 0.9), again=again) == far
