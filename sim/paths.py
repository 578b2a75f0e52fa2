"""Factor paths: read and write a scene by path, and apply edits to one given scene."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from coda.sim.draw import draw
from coda.sim.errors import SceneError
from coda.sim.factors import FACTORS, Factor, axis_of, check_value, factor
from coda.sim.program import Edit, Value, plain
from coda.sim.roles import DISTRACTORS, Role
from coda.sim.scene import Attributes, ObjectAttributes, Pose, Scene, Spatial
from coda.sim.wording import reword

__all__ = [
    "FACTORS", "apply_edits", "axis_of", "default_distractor", "put", "read_factor", "write_factor",
]  # fmt: skip

_COLOURS = ((0.15, 0.3, 0.85, 1.0), (0.15, 0.6, 0.25, 1.0), (0.9, 0.8, 0.15, 1.0))
_SLOTS = ((0.36, 0.02), (0.60, 0.02), (0.36, -0.20))


def default_distractor(role: Role) -> tuple[Pose, ObjectAttributes]:
    """Pose and attributes of a distractor that was switched on and not described further."""
    index = DISTRACTORS.index(role)
    return Pose(xy=_SLOTS[index]), ObjectAttributes(asset="cube", rgba=_COLOURS[index])


def _require(scene: Scene, f: Factor) -> None:
    if f.role is not None and f.role not in scene.sigma.poses:
        raise SceneError(
            f"{f.path}: the scene has no {f.role} (tau.distractors = {scene.tau.distractors}); "
            "raise tau.distractors first."
        )


def read_factor(scene: Scene, path: str) -> Value:
    """The value at `path`. Raises `UnknownName`, or `SceneError` if the role is absent."""
    f = factor(path)
    _require(scene, f)
    name = path.rsplit(".", 1)[1]
    if path == "tau.distractors":
        return scene.tau.distractors
    if f.role is None:
        return plain(getattr(scene.sigma.robot, name))
    record: Any = (
        scene.sigma.poses[f.role] if path.startswith("sigma.") else scene.alpha.objects[f.role]
    )
    return plain(getattr(record, name))


def write_factor(scene: Scene, path: str, value: Any) -> Scene:
    """A copy of `scene` with `value` at `path`; the instruction is left as it is.

    Raises `UnknownName` for a path that does not exist, and `SceneError` for a value that it
    cannot hold or a role that the scene lacks.
    """
    f = factor(path)
    _require(scene, f)
    problem = check_value(path, value)
    if problem is not None:
        raise SceneError(f"{problem.line()}.")
    return put(scene, f, value)


def put(scene: Scene, f: Factor, value: Any) -> Scene:
    """`write_factor` without its checks, for values that were checked already."""
    if f.path == "tau.distractors":
        return _with_distractors(scene, int(value))
    name = f.path.rsplit(".", 1)[1]
    held = tuple(float(v) for v in value) if f.kind == "vector" else value
    if f.kind == "number":
        held = float(value)
    sigma, alpha = scene.sigma, scene.alpha
    if f.role is None:
        robot = sigma.robot.model_copy(update={name: held})
        return scene.model_copy(update={"sigma": Spatial(poses=sigma.poses, robot=robot)})
    if f.path.startswith("sigma."):
        pose = sigma.poses[f.role].model_copy(update={name: held})
        poses = sigma.model_copy(update={"poses": {**sigma.poses, f.role: pose}})
        return scene.model_copy(update={"sigma": poses})
    record = alpha.objects[f.role].model_copy(update={name: held})
    objects = alpha.model_copy(update={"objects": {**alpha.objects, f.role: record}})
    return scene.model_copy(update={"alpha": objects})


def _with_distractors(scene: Scene, count: int) -> Scene:
    """Switch distractors on (with defaults) or off so that `count` are left."""
    poses = {r: p for r, p in scene.sigma.poses.items() if r not in DISTRACTORS}
    objects = {r: o for r, o in scene.alpha.objects.items() if r not in DISTRACTORS}
    for role in DISTRACTORS[:count]:
        pose, record = default_distractor(role)
        poses[role] = scene.sigma.poses.get(role, pose)
        objects[role] = scene.alpha.objects.get(role, record)
    return scene.model_copy(
        update={
            "tau": scene.tau.model_copy(update={"distractors": count}),
            "sigma": Spatial(poses=poses, robot=scene.sigma.robot),
            "alpha": Attributes(objects=objects),
        }
    )


def apply_edits(scene: Scene, edits: Iterable[Edit], rng: np.random.Generator) -> Scene:
    """A copy of one given scene with `edits` drawn and written in order.

    Edits of a distractor that the scene lacks are skipped. The instruction is written again where
    an asset or a colour changes. Placement is not checked: gate the result.
    Raises `UnknownName` for a path, `SceneError` for a value that its path cannot hold.
    """
    renamed = False
    for edit in edits:
        f = factor(edit.path)
        if f.role in DISTRACTORS and f.role not in scene.sigma.poses:
            continue
        scene = write_factor(scene, edit.path, draw(edit.sampler, f, scene, rng))
        renamed = renamed or edit.path.endswith((".asset", ".rgba"))
    return reword(scene) if renamed else scene
