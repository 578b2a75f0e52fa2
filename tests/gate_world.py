"""Scenes that break rules on purpose, and the gate's answers to them, timed."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from coda.sim.families import FAMILIES
from coda.sim.gate import GATE_CODES, Gate, GateReport
from coda.sim.paths import apply_edits
from coda.sim.program import Edit, Fixed
from coda.sim.scene import Scene

GATE = Gate()
TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]
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
