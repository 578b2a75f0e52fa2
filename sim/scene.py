"""The editable factors of a scene: task (tau), spatial (sigma), attribute (alpha), verifier (nu).

Lengths in metres, angles in radians, masses in kilograms. Positions are in the robot's base
frame: x forward, y left, z up, and the table's top at z = 0.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from coda.sim.errors import SceneError
from coda.sim.plain_data import read_yaml
from coda.sim.roles import DISTRACTORS, PLACED_ROLES, Role
from coda.sim.terms import PredicateTerm

SCENE_SCHEMA = 1
"""Version of the scene format; a file of another version is refused."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Length = Annotated[float, Field(allow_inf_nan=False, ge=-2.0, le=2.0)]
Angle = Annotated[float, Field(allow_inf_nan=False, ge=-math.pi - 1e-9, le=math.pi + 1e-9)]
Unit = Annotated[float, Field(allow_inf_nan=False, ge=0.0, le=1.0)]

AssetName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z0-9][a-z0-9:_-]*$")]
"""A name of the asset catalogue, `coda.sim.assets.ASSETS`; the gate refuses others."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Pose(_Record):
    """Planar pose of an object that rests on the table."""

    xy: tuple[Length, Length]
    yaw: Angle = 0.0


class RobotStart(_Record):
    """Pose of the gripper's grasp point at the start, fingers pointing down."""

    xyz: tuple[Length, Length, Length] = (0.42, 0.0, 0.25)
    yaw: Angle = 0.0


class ObjectAttributes(_Record):
    """Attributes alpha of one object."""

    asset: AssetName
    scale: Annotated[float, Field(allow_inf_nan=False, gt=0.0, le=10.0)] = 1.0
    """Size relative to the catalogue's."""
    mass_kg: Annotated[float, Field(allow_inf_nan=False, gt=0.0, le=1000.0)] = 0.1
    friction: Annotated[float, Field(allow_inf_nan=False, ge=0.0, le=10.0)] = 1.0
    """Sliding friction coefficient against the fingers and the table."""
    rgba: tuple[Unit, Unit, Unit, Unit] = (0.8, 0.1, 0.1, 1.0)
    damping: Annotated[float, Field(allow_inf_nan=False, gt=0.0, le=1000.0)] = 1.0
    """Damping of an articulated fixture's joint, relative to the catalogue's."""


Relation = Literal["on", "inside", "inserted", "open", "closed"]


class Goal(_Record):
    """Goal relation: `subject` comes to be `relation` (`reference`)."""

    relation: Relation = "on"
    subject: Role = "target"
    reference: Role | None = "receptacle"
    """None for `open` and `closed`."""


class Task(_Record):
    """Task factors tau."""

    family: str
    task: str = "place"
    """Which of the family's tasks, `coda.sim.families.Family.tasks`."""
    instruction: Annotated[str, Field(min_length=3, max_length=300)]
    goal: Goal = Goal()
    distractors: Annotated[int, Field(ge=0, le=3)] = 0
    opening: Unit = 0.0
    """How far an articulated fixture is open at the start: 0 closed, 1 fully open."""


class Spatial(_Record):
    """Spatial factors sigma: a pose for every role of the scene, and the robot's start."""

    poses: dict[Role, Pose]
    robot: RobotStart = RobotStart()


class Attributes(_Record):
    """Attribute factors alpha: one record for every role of the scene."""

    objects: dict[Role, ObjectAttributes]


class Verifier(_Record):
    """Sparse success test nu: every term holds for `hold_s` seconds on end."""

    terms: tuple[PredicateTerm, ...]
    hold_s: Annotated[float, Field(ge=0.0, le=2.0)] = 0.25


class Scene(_Record):
    """One executable scene (tau, sigma, alpha, nu)."""

    schema_version: Literal[1] = 1
    tau: Task
    sigma: Spatial
    alpha: Attributes
    nu: Verifier

    @model_validator(mode="after")
    def _roles_agree(self) -> Scene:
        crowd = set(DISTRACTORS[: self.tau.distractors])
        for group, have in (("sigma", set(self.sigma.poses)), ("alpha", set(self.alpha.objects))):
            if "target" not in have:
                raise ValueError(f"{group} holds no target; every scene has one")
            if "handle" in have:
                raise ValueError(f"{group} holds a handle; a handle comes with its fixture")
            if have & set(DISTRACTORS) != crowd:
                raise ValueError(
                    f"{group} holds roles {sorted(have)}, but tau.distractors = "
                    f"{self.tau.distractors} needs exactly {sorted(crowd)} beside the task's"
                )
        if set(self.sigma.poses) != set(self.alpha.objects):
            raise ValueError(
                f"sigma holds roles {sorted(self.sigma.poses)}, alpha "
                f"{sorted(self.alpha.objects)}; they hold the same roles"
            )
        return self

    @property
    def roles(self) -> tuple[Role, ...]:
        """Roles that have a pose, in the order of `ROLES`."""
        return tuple(role for role in PLACED_ROLES if role in self.sigma.poses)

    def canonical(self) -> str:
        """Canonical JSON: sorted keys, no spaces."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """Content hash, 16 hex digits."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:16]

    def to_yaml(self) -> str:
        """YAML text that `from_text` reads back to an equal scene."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)

    @classmethod
    def from_text(cls, text: str) -> Scene:
        """Read JSON or YAML. Raises `SceneError` with the first problem in one line."""
        data = read_yaml(text)
        if not isinstance(data, dict):
            raise SceneError(f"a scene is a mapping with tau, sigma, alpha, nu; got {data!r:.60}.")
        if data.get("schema_version", SCENE_SCHEMA) != SCENE_SCHEMA:
            raise SceneError(
                f"scene schema_version = {data['schema_version']!r}; this version reads "
                f"{SCENE_SCHEMA}. Write the scene again with this version."
            )
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise SceneError(first_problem("scene", error)) from None


def first_problem(kind: str, error: ValidationError) -> str:
    """The first problem of a validation error, in one line with its path and value."""
    first = error.errors(include_url=False)[0]
    path = ".".join(str(part) for part in first["loc"]) or "(whole)"
    more = error.error_count() - 1
    rest = f" ({more} more)" if more else ""
    return f"{kind} {path} = {first['input']!r:.60}: {first['msg']}{rest}."
