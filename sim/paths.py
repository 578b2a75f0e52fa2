"""Factor paths: read and write a scene by path, and apply edits to one given scene."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from coda.sim.assets import ASSETS
from coda.sim.draw import draw
from coda.sim.errors import SceneError
from coda.sim.factors import (
    FACTORS,
    Factor,
    axis_of,
    check_value,
    factor,
    factors,
    task_factors,
    value_issue,
)
from coda.sim.families import family, task_of
from coda.sim.program import (
    Choice,
    Edit,
    Fixed,
    Mixture,
    Normal,
    Sampler,
    Uniform,
    Value,
    plain,
)
from coda.sim.roles import DISTRACTORS, Role
from coda.sim.scene import Attributes, ObjectAttributes, Pose, Scene, Spatial
from coda.sim.wording import COLOURS, colour_name, reword, rgba_of

__all__ = [
    "FACTORS", "apply_edits", "axis_of", "check_value", "default_distractor", "fitting",
    "narrowed", "put", "read_factor", "write_factor",
]  # fmt: skip

_COLOURS = ("blue", "green", "yellow", *COLOURS)
_SLOTS = ((0.36, 0.02), (0.60, 0.02), (0.36, -0.20))


def default_distractor(role: Role, scene: Scene) -> tuple[Pose, ObjectAttributes]:
    """Pose and attributes of a distractor that was switched on and not described further.

    Its colour is one that no other object of `scene` has.
    """
    index = DISTRACTORS.index(role)
    taken = {colour_name(record.rgba) for record in scene.alpha.objects.values()}
    free = [name for name in dict.fromkeys(_COLOURS) if name not in taken]
    record = ObjectAttributes(asset=task_of(scene).assets[role][0], rgba=rgba_of(free[0]))
    return Pose(xy=_SLOTS[index]), record


def _require(scene: Scene, f: Factor) -> None:
    if f.role is not None and f.role not in scene.sigma.poses:
        if f.role in DISTRACTORS:
            why = f"(tau.distractors = {scene.tau.distractors}); raise tau.distractors first"
        else:
            why = f"(its task is {scene.tau.task}); it has {', '.join(scene.roles)}"
        raise SceneError(f"{f.path}: the scene has no {f.role} {why}.")


def read_factor(scene: Scene, path: str) -> Value:
    """The value at `path`. Raises `UnknownName`, or `SceneError` if the role is absent."""
    f = factor(path)
    _require(scene, f)
    group, *_, name = path.split(".")
    if group == "tau":
        return plain(getattr(scene.tau, name))
    if f.role is None:
        return plain(getattr(scene.sigma.robot, name))
    record: Any = scene.sigma.poses[f.role] if group == "sigma" else scene.alpha.objects[f.role]
    return plain(getattr(record, name))


def write_factor(scene: Scene, path: str, value: Any) -> Scene:
    """A copy of `scene` with `value` at `path`; the instruction is left as it is.

    Another `tau.task` gives that task's seed scene, whatever the scene was before.
    Raises `UnknownName` for a path that does not exist, and `SceneError` for a value that the
    scene's task does not allow there, or a role or a factor that it lacks.
    """
    _require(scene, factor(path))
    f = task_factors(scene.tau.family, scene.tau.task).get(path)
    if f is None:
        raise SceneError(
            f"{path}: {scene.tau.family}/{scene.tau.task} has no such factor; "
            "edit another path, or a scene of another task."
        )
    problem = value_issue(f, value)
    if problem is not None:
        raise SceneError(f"{problem.line()}.")
    return put(scene, f, value)


def put(scene: Scene, f: Factor, value: Any) -> Scene:
    """`write_factor` without its checks, for values that were checked already."""
    group, *_, name = f.path.split(".")
    if f.path == "tau.task":
        tasks = family(scene.tau.family).tasks
        return scene if value == scene.tau.task else tasks[value].seed
    if f.path == "tau.distractors":
        return _with_distractors(scene, int(value))
    held = tuple(float(v) for v in value) if f.kind == "vector" else value
    if f.kind == "number":
        held = float(value)
    if group == "tau":
        return scene.model_copy(update={"tau": scene.tau.model_copy(update={name: held})})
    sigma, alpha = scene.sigma, scene.alpha
    if f.role is None:
        robot = sigma.robot.model_copy(update={name: held})
        return scene.model_copy(update={"sigma": Spatial(poses=sigma.poses, robot=robot)})
    if group == "sigma":
        pose = sigma.poses[f.role].model_copy(update={name: held})
        poses = sigma.model_copy(update={"poses": {**sigma.poses, f.role: pose}})
        return scene.model_copy(update={"sigma": poses})
    update = {name: held}
    if name == "asset" and (own := _own_colour(held)) is not None:
        update["rgba"] = own  # its own textures, until an edit colours it
    record = alpha.objects[f.role].model_copy(update=update)
    objects = alpha.model_copy(update={"objects": {**alpha.objects, f.role: record}})
    return scene.model_copy(update={"alpha": objects})


def _own_colour(asset: object) -> tuple[float, float, float, float] | None:
    item = ASSETS.get(str(asset))
    return None if item is None else item.own_rgba


def _with_distractors(scene: Scene, count: int) -> Scene:
    """Switch distractors on (with defaults) or off so that `count` are left."""
    had = scene
    poses = {r: p for r, p in scene.sigma.poses.items() if r not in DISTRACTORS}
    objects = {r: o for r, o in scene.alpha.objects.items() if r not in DISTRACTORS}
    tau = scene.tau.model_copy(update={"distractors": count})
    for role in DISTRACTORS[:count]:
        if role in had.sigma.poses:
            pose, record = had.sigma.poses[role], had.alpha.objects[role]
        else:
            pose, record = default_distractor(role, scene)
        poses[role], objects[role] = pose, record
        scene = scene.model_copy(update={"alpha": Attributes(objects=dict(objects))})
    sigma = Spatial(poses=poses, robot=scene.sigma.robot)
    alpha = Attributes(objects=objects)
    return scene.model_copy(update={"tau": tau, "sigma": sigma, "alpha": alpha})


def fitting(scene: Scene, edit: Edit) -> tuple[Factor, Sampler] | None:
    """The factor and the sampler of an edit, narrowed to what the scene's task allows.

    A program may serve several tasks: asset names of other tasks drop out, and the bounds of the
    initial opening are cut to the task's. None where nothing is left to write: the scene has no
    such role, its task no such factor, or all values are other tasks'. Values that no task of the
    family allows are left, for the caller to find. Raises `UnknownName` for a path.
    """
    f = task_factors(scene.tau.family, scene.tau.task).get(factor(edit.path).path)
    if f is None or (f.role is not None and f.role not in scene.sigma.poses):
        return None
    if f.kind != "name" and f.path != "tau.opening":
        return f, edit.sampler
    part = narrowed(edit.sampler, f)
    if part is not None:
        return f, part
    of_others = narrowed(edit.sampler, factors(scene.tau.family)[edit.path]) is not None
    return None if of_others else (f, edit.sampler)


def narrowed(sampler: Sampler, f: Factor) -> Sampler | None:
    """The part of a sampler whose values a factor allows; None if there is none."""
    if isinstance(sampler, Mixture):
        weights = sampler.weights or (1.0,) * len(sampler.components)
        parts = [(narrowed(p, f), w) for p, w in zip(sampler.components, weights, strict=True)]
        kept = [(p, w) for p, w in parts if p is not None]
        if not kept or sum(w for _, w in kept) <= 0.0:
            return None
        same = len(kept) == len(parts) and sampler.weights is None
        return sampler.model_copy(
            update={
                "components": tuple(p for p, _ in kept),
                "weights": None if same else tuple(w for _, w in kept),
            }
        )
    if isinstance(sampler, Fixed):
        return sampler if value_issue(f, sampler.value) is None else None
    if isinstance(sampler, Choice):
        return _chosen(sampler, f)
    if isinstance(sampler, Uniform | Normal) and f.kind == "number":
        low, high = (
            max(float(_first(sampler.low)), f.low[0]),
            min(float(_first(sampler.high)), f.high[0]),
        )
        return sampler.model_copy(update={"low": low, "high": high}) if low <= high else None
    return sampler


def _first(value: float | tuple[float, ...]) -> float:
    return value[0] if isinstance(value, tuple) else value


def _chosen(sampler: Choice, f: Factor) -> Choice | None:
    weights = sampler.weights or (1.0,) * len(sampler.values)
    kept = [
        (v, w) for v, w in zip(sampler.values, weights, strict=True) if value_issue(f, v) is None
    ]
    if not kept or sum(w for _, w in kept) <= 0.0:
        return None
    if len(kept) == len(sampler.values):
        return sampler
    return Choice(
        values=tuple(v for v, _ in kept),
        weights=None if sampler.weights is None else tuple(w for _, w in kept),
    )


def apply_edits(scene: Scene, edits: Iterable[Edit], rng: np.random.Generator) -> Scene:
    """A copy of one given scene with `edits` drawn and written in order.

    Edits of what the scene's task lacks (a role, a joint, another task's assets) are skipped. The
    instruction is written again where an asset or a colour changes. Placement is not checked: gate
    the result. Raises `UnknownName` for a path, `SceneError` for a value that its path cannot hold.
    """
    renamed = False
    for edit in edits:
        fit = fitting(scene, edit)
        if fit is None:
            continue
        f, sampler = fit
        scene = write_factor(scene, edit.path, draw(sampler, f, scene, rng))
        renamed = renamed or edit.path.endswith((".asset", ".rgba"))
    return reword(scene) if renamed else scene
