"""Variants of a task's seed scene: moved a little to far, resized, another asset; all gated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coda.sim.assets import ASSETS
from coda.sim.draw import draw, rounded
from coda.sim.errors import SceneError
from coda.sim.factors import Factor
from coda.sim.family import Family, TaskSpec
from coda.sim.gate import Gate
from coda.sim.paths import fitting, read_factor, write_factor
from coda.sim.program import Edit, Sampler
from coda.sim.roles import Axis, Role
from coda.sim.scene import Scene
from coda.sim.wording import reword

SHARES = (0.3, 0.6, 1.0)
"""How far the three spatial variants go from the seed towards a draw of the whole range."""
KINDS = ("seed", "spatial 1", "spatial 2", "spatial 3", "size", "asset")
"""What each variant of a row changes."""
SPATIAL_AXES: tuple[Axis, ...] = ("position", "yaw", "goal")
FARTHER_M = 0.02
"""Each spatial variant moves the scene's objects by so much more than the one before [m]."""
RESIZED = 1.2
"""Least change of size that can be seen, as a factor."""
MAX_DRAWS = 60
"""Draws of one variant before it is given up."""

Make = Callable[[np.random.Generator], Scene | None]
"""One draw of a variant; None where it is not different enough."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One scene of a row, accepted by the validity gate, or the reason why there is none."""

    kind: str
    """``seed``, ``spatial 1`` … ``spatial 3``, ``size`` or ``asset``."""
    caption: str
    scene: Scene | None
    draws: int
    """Draws that it took."""
    refused: tuple[str, ...] = ()
    """Codes of the gate for the draws before it."""


def variants(family: Family, task: TaskSpec, *, seed: int = 0) -> tuple[Variant, ...]:
    """Six variants of a task: seed, three spatial ones of increasing size, size, asset."""
    gate = Gate()
    found = [_search("seed", lambda rng: task.seed, gate, np.random.default_rng(seed), draws=1)]
    if found[0].scene is None:
        why = f"the seed is refused ({', '.join(found[0].refused)})"
        return (found[0], *(_none(kind, why) for kind in KINDS[1:]))
    base, moved = task.seed, 0.0
    for k, share in enumerate(SHARES):
        least = moved + FARTHER_M

        def shift(
            rng: np.random.Generator, share: float = share, least: float = least
        ) -> Scene | None:
            scene = _moved(family, base, share, rng)
            return scene if displacement(base, scene) >= least else None

        one = _search(f"spatial {k + 1}", shift, gate, np.random.default_rng([seed, k]))
        if one.scene is not None:
            moved = displacement(base, one.scene)
            one = replace(one, caption=_moves(base, one.scene))
        found.append(one)
    found.append(_resized(family, base, gate, np.random.default_rng([seed, len(SHARES)])))
    found.append(_replaced(task, base, gate, np.random.default_rng([seed, len(SHARES) + 1])))
    return tuple(found)


def displacement(a: Scene, b: Scene) -> float:
    """Largest distance that an object of both scenes was moved [m]."""
    both = [role for role in a.roles if role in b.sigma.poses]
    return max(math.dist(a.sigma.poses[r].xy, b.sigma.poses[r].xy) for r in both)


def _search(
    kind: str, make: Make, gate: Gate, rng: np.random.Generator, *, draws: int = MAX_DRAWS
) -> Variant:
    """Draw until the gate accepts."""
    refused: list[str] = []
    for count in range(1, draws + 1):
        try:
            scene = make(rng)
        except SceneError:  # a value outside its path's range
            refused.append("value-range")
            continue
        if scene is None:
            continue
        report = gate.check([scene])[0]
        if report.accepted:
            return Variant(
                kind=kind, caption=kind, scene=report.scene, draws=count, refused=tuple(refused)
            )
        refused.append(report.issues[0].code)
    codes = ", ".join(dict.fromkeys(refused)) or "too like the seed"
    caption = f"{kind}: no draw passed ({codes})"
    return Variant(kind=kind, caption=caption, scene=None, draws=draws, refused=tuple(refused))


def _samplers(
    family: Family, base: Scene, axes: Sequence[Axis], group: str
) -> list[tuple[Factor, Sampler]]:
    """What `base`'s task allows of the whole range of some axes, paths that begin with `group`."""
    fits = (
        fitting(base, Edit(path=path, sampler=sampler))
        for axis in axes
        for path, sampler in family.wide.get(axis, {}).items()
        if path.startswith(group)
    )
    return [fit for fit in fits if fit is not None]


def _moved(family: Family, base: Scene, share: float, rng: np.random.Generator) -> Scene:
    """Poses a share of the way from `base` to a draw of the whole range."""
    scene = base
    for f, sampler in _samplers(family, base, SPATIAL_AXES, "sigma."):
        start = np.asarray(read_factor(base, f.path), dtype=np.float64)
        end = np.asarray(draw(sampler, f, scene, rng), dtype=np.float64)
        scene = write_factor(scene, f.path, rounded(start + share * (end - start)))
    return scene


def _moves(base: Scene, scene: Scene) -> str:
    """What was moved and turned, in words."""
    words = []
    for role in base.roles:
        a, b = base.sigma.poses[role], scene.sigma.poses[role]
        shift_cm, turn_deg = 100 * math.dist(a.xy, b.xy), math.degrees(b.yaw - a.yaw)
        parts = [f"{shift_cm:.0f} cm"] if shift_cm >= 0.5 else []
        parts += [f"{turn_deg:+.0f}°"] if abs(turn_deg) >= 0.5 else []
        words += [f"{role} {' '.join(parts)}"] if parts else []
    return ", ".join(words)


def _resized(family: Family, base: Scene, gate: Gate, rng: np.random.Generator) -> Variant:
    """Another size of the target."""
    samplers = _samplers(family, base, ("size",), "alpha.target.scale")
    if not samplers:
        return _none("size", "the task has no size factor of its target")
    ((f, sampler),) = samplers
    start = base.alpha.objects["target"].scale

    def make(rng: np.random.Generator) -> Scene | None:
        scale = draw(sampler, f, base, rng)
        assert isinstance(scale, int | float)
        if abs(math.log(scale / start)) < math.log(RESIZED):
            return None
        return write_factor(base, f.path, scale)

    found = _search("size", make, gate, rng)
    if found.scene is None:
        return found
    ratio = found.scene.alpha.objects["target"].scale / start
    return replace(found, caption=f"target {ratio:.2f} times its size")


def _replaced(task: TaskSpec, base: Scene, gate: Gate, rng: np.random.Generator) -> Variant:
    """Another asset of the target, or of the receptacle where the target has no other."""
    for role in ("target", "receptacle"):
        others = _others(task, base, role)
        if not others:
            continue

        def make(
            rng: np.random.Generator, role: Role = role, others: tuple[str, ...] = others
        ) -> Scene:
            name = others[int(rng.integers(len(others)))]
            return reword(write_factor(base, f"alpha.{role}.asset", name))

        found = _search("asset", make, gate, rng)
        if found.scene is not None:
            old, new = (s.alpha.objects[role].asset for s in (base, found.scene))
            nouns = ASSETS[old].noun, ASSETS[new].noun
            a, b = (old, new) if nouns[0] == nouns[1] else nouns
            return replace(found, caption=f"{b} for {a}")
    return _none("asset", "no other asset passes the gate")


def _others(task: TaskSpec, base: Scene, role: Role) -> tuple[str, ...]:
    record = base.alpha.objects.get(role)
    return (
        () if record is None else tuple(n for n in task.assets.get(role, ()) if n != record.asset)
    )


def _none(kind: str, why: str) -> Variant:
    return Variant(kind=kind, caption=f"{kind}: {why}", scene=None, draws=0)
