"""Draw scenes from a generation program, redrawing within bounds until the cheap checks hold.

Edits are applied in order to the seed scene of the family's default task, or of the task that the
program draws first. A distractor that the program switches on without describing it gets a random
place, yaw, asset and colour. Edits of what a draw lacks (a distractor that is off, a role or a
joint that its task does not have) are skipped. When a draw breaks a check (placement, separation,
ambiguous words, a held-out cell under the guard), only the edits that can cure it are drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from coda.sim.assets import ASSETS
from coda.sim.cells import fold_yaw
from coda.sim.draw import draw, rounded
from coda.sim.errors import SceneError
from coda.sim.factors import factor, factors, value_issue
from coda.sim.families import family
from coda.sim.gate_checks import Finding, separation, static_findings
from coda.sim.gate_codes import make_issue
from coda.sim.gate_guard import NOWHERE_HELD_OUT, split_findings
from coda.sim.gate_program import program_issues
from coda.sim.paths import fitting, put
from coda.sim.program import Choice, Edit, Fixed, GenerationProgram, Issue, Sampler, Uniform
from coda.sim.roles import DISTRACTORS, Axis, Role
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from coda.sim.wording import COLOURS, reword, rgba_of

MAX_DRAWS = 200
"""Draws of one scene before it is given up."""
WIDEN_EVERY = 8
"""After so many draws in vain, all edits that could cure a finding are redrawn, not only one."""


class Rejected(SceneError):
    """No scene could be drawn; `issues` says why."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        shown = "; ".join(issue.line() for issue in self.issues[:3])
        super().__init__(f"{shown}.")


def _undescribed(family_name: str, role: Role) -> dict[str, Sampler]:
    """Samplers for what a program leaves open about a distractor."""
    table = factors(family_name)
    place, names = table[f"sigma.{role}.xy"], table[f"alpha.{role}.asset"].names
    return {
        f"sigma.{role}.xy": Uniform(low=place.low, high=place.high),
        f"sigma.{role}.yaw": Uniform(low=-math.pi / 2, high=math.pi / 2),
        f"alpha.{role}.asset": Choice(values=tuple(n for n in names if ASSETS[n].graspable)),
        f"alpha.{role}.rgba": Choice(values=tuple(rgba_of(name) for name in COLOURS)),
    }


@lru_cache(maxsize=256)
def all_edits(program: GenerationProgram) -> tuple[Edit, ...]:
    """The program's edits, with the implied ones of distractors it leaves undescribed.

    Raises `Rejected` if the program breaks a semantic rule.
    """
    issues = program_issues(program)
    if issues:
        raise Rejected(issues)
    written = {edit.path for edit in program.edits}
    edits: list[Edit] = []
    for edit in program.edits:
        edits.append(edit)
        if edit.path != "tau.distractors":
            continue
        for role in DISTRACTORS[: int(factors(program.family)["tau.distractors"].high[0])]:
            samplers = _undescribed(program.family, role)
            open_paths = {p: s for p, s in samplers.items() if p not in written}
            edits += [Edit(path=path, sampler=sampler) for path, sampler in open_paths.items()]
    return tuple(edits)


def _replay(
    base: Scene, edits: Sequence[Edit], seeds: npt.NDArray[np.int64]
) -> tuple[Scene, list[Finding]]:
    """Apply every edit, each with its own seed, so that one can be redrawn without the others."""
    scene, found = base, []
    for edit, seed in zip(edits, seeds, strict=True):
        fit = fitting(scene, edit)
        if fit is None:
            continue
        f, sampler = fit
        value = draw(sampler, f, scene, np.random.default_rng(int(seed)))
        problem = value_issue(f, value)
        if problem is None:
            scene = put(scene, f, value)
        else:
            found.append(Finding(issue=problem, paths=(f.path,)))
    for edit in edits:
        f = factor(edit.path)
        if edit.path.endswith(".yaw") and f.role is not None and f.role in scene.sigma.poses:
            folded = fold_yaw(scene.alpha.objects[f.role].asset, scene.sigma.poses[f.role].yaw)
            scene = put(scene, f, rounded(folded))
    return reword(scene), found


def _constraint_findings(program: GenerationProgram, scene: Scene) -> Iterator[Finding]:
    for constraint in program.constraints:
        a, b = constraint.roles
        if a not in scene.sigma.poses or b not in scene.sigma.poses:
            continue
        distance = separation(scene, a, b)
        if distance < constraint.distance_m:
            issue = make_issue(
                "min-separation", f"sigma.{b}.xy", f"{distance:.3f} m from {a}",
                f"at least {constraint.distance_m} m", "widen the ranges of the two positions",
            )  # fmt: skip
            yield Finding(issue=issue, paths=(f"sigma.{b}.xy", f"sigma.{a}.xy"))


def sample_where(
    program: GenerationProgram,
    rng: np.random.Generator,
    *,
    splits: Splits | None = None,
    want: Mapping[Axis, bool] | None = None,
) -> Scene:
    """Draw one scene whose cells are held out where `want` says so, and not elsewhere.

    Where held out is wanted, the scene also lies away from the seed range (`coda.sim.cells.away`).

    Axes that `want` leaves out may be either. Raises `Rejected` with the issues of the last draw
    when no edit can cure them, or after `MAX_DRAWS` draws.
    """
    edits = all_edits(program)
    base = family(program.family).seed
    seeds = rng.integers(2**62, size=len(edits))
    movable = {e.path: i for i, e in enumerate(edits) if not isinstance(e.sampler, Fixed)}
    found: list[Finding] = []
    for attempt in range(1, MAX_DRAWS + 1):
        scene, found = _replay(base, edits, seeds)
        found = found or static_findings(scene)
        found += _constraint_findings(program, scene)
        if splits is not None:
            found += split_findings(scene, splits, want or {})
        if not found:
            return scene
        chances = [[movable[p] for p in one.paths if p in movable] for one in found]
        if not all(chances):
            break
        for indices in chances:
            again = indices if attempt % WIDEN_EVERY == 0 else indices[:1]
            seeds[again] = rng.integers(2**62, size=len(again))
    else:
        spent = make_issue(
            "cannot-place", "edits", f"{MAX_DRAWS} draws failed", "a scene within that many draws",
            "widen the ranges, or use fewer objects or constraints",
        )  # fmt: skip
        raise Rejected([*(one.issue for one in found), spent])
    raise Rejected([one.issue for one in found])


def sample_scene(
    program: GenerationProgram, rng: np.random.Generator, *, guard: Splits | None = None
) -> Scene:
    """Draw one scene. With `guard`, it lies in no held-out cell of any axis.

    Raises `Rejected` (a `SceneError`) with the issues if the program is unsound or no draw passes.
    """
    return sample_where(program, rng, splits=guard, want=NOWHERE_HELD_OUT)
