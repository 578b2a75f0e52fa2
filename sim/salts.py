"""The search for a family's salt: which of many equal choices of held-out cells asks something.

Rule: of the salts ``<family>/1``, ``/2`` …, the first with which, on every axis but the asset and
for every task, of the scenes drawn with that axis wide that lie away from the seed range, a share
within `SHARE` is held out, on every side of the seed range that `FEWEST` of them lie on, with
others left there for training.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from coda.sim.cells import away, cell, fold_yaw, seed_centre
from coda.sim.errors import SceneError
from coda.sim.families import family
from coda.sim.roles import AXES, DISTRACTORS, Axis
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits, ranked

DRAWS = 160
"""Scenes drawn per axis and task."""
SHARE = (0.15, 0.60)
"""Held-out share of the scenes away from the seed range, per axis and task."""
FEWEST = 12
"""Scenes from which a side counts."""
MAX_SALTS = 20_000
_SEED = 4242

Sides = dict[str, list[str]]
"""Cells of scenes away from the seed range, by the side on which they lie."""


def side(axis: Axis, scene: Scene) -> str:
    """On which side of its task's seed range a scene lies."""
    seed = seed_centre(scene.tau.family, scene.tau.task)
    if axis in ("position", "goal"):
        role = "target" if axis == "position" else "receptacle"
        if role not in scene.sigma.poses:
            return ""
        (x, y), (x0, y0) = scene.sigma.poses[role].xy, seed.sigma.poses[role].xy
        return f"{'far' if x >= x0 else 'near'} {'left' if y >= y0 else 'right'}"
    target = scene.alpha.objects["target"]
    if axis == "yaw":
        return "left" if fold_yaw(target.asset, scene.sigma.poses["target"].yaw) >= 0 else "right"
    if axis == "size":
        return "larger" if target.scale >= seed.alpha.objects["target"].scale else "smaller"
    if axis == "distractors":
        tx = scene.sigma.poses["target"].xy
        near = [scene.sigma.poses[r].xy for r in scene.roles if r in DISTRACTORS]
        x, y = min(near, key=lambda xy: math.dist(xy, tx))
        return str(math.floor(math.atan2(y - tx[1], x - tx[0]) / (math.pi / 2) + 0.5) % 4)
    return ""


def drawn_sides(family_name: str, axis: Axis, task: str) -> Sides:
    """Scenes with one axis wide, those away from the seed range by side."""
    program = Splits(family=family_name).program((axis,), task=task)
    found: Sides = defaultdict(list)
    for i in range(DRAWS):
        scene = sample_scene(program, np.random.default_rng([_SEED, i]))
        if away(axis, scene):
            found[side(axis, scene)].append(cell(axis, scene))
    return dict(found)


def fits(sides: Sequence[Sides], held: frozenset[str]) -> bool:
    """Whether held-out cells keep the rule on one axis, for every task's scenes."""
    for by_side in sides:
        every = [name for names in by_side.values() for name in names]
        if not every:
            return False
        share = sum(name in held for name in every) / len(every)
        if not SHARE[0] <= share <= SHARE[1]:
            return False
        populated = [names for names in by_side.values() if len(names) >= FEWEST]
        if any(not held & set(names) or set(names) <= held for names in populated):
            return False
    return True


def first_salt(family_name: str) -> str:
    """The first salt that keeps the rule. Raises `SceneError` if none of `MAX_SALTS` does."""
    tasks = family(family_name).tasks
    axes: tuple[Axis, ...] = tuple(axis for axis in AXES if axis != "asset")
    drawn = {axis: [drawn_sides(family_name, axis, task) for task in tasks] for axis in axes}
    for axis, per_task in drawn.items():
        empty = [t for t, sides in zip(tasks, per_task, strict=True) if not any(sides.values())]
        if empty:
            raise SceneError(
                f"{family_name}/{empty[0]}: no scene with {axis} wide lies away from the seed "
                "range; widen the family's range or change its numbers in coda.sim.cuts."
            )
    for number in range(1, MAX_SALTS):
        salt = f"{family_name}/{number}"
        if all(fits(drawn[axis], frozenset(ranked(family_name, axis, salt))) for axis in axes):
            return salt
    numbers = range(1, 200)
    worst = [a for a in axes if not any(_fits(family_name, a, drawn[a], n) for n in numbers)]
    raise SceneError(
        f"no salt up to {family_name}/{MAX_SALTS} fits (hardest: {', '.join(worst) or 'none'}); "
        "cut the axes into more cells in coda.sim.cuts."
    )


def _fits(family_name: str, axis: Axis, sides: Sequence[Sides], number: int) -> bool:
    return fits(sides, frozenset(ranked(family_name, axis, f"{family_name}/{number}")))
