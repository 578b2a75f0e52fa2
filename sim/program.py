"""Generation programs omega: typed edits with samplers, pure data that a model can write."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from coda.sim.roles import Role

Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1000.0, le=1000.0)]
Value = Finite | int | str | tuple[Finite, ...]
"""What an edit may write: a number, a name, or a vector."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fixed(_Data):
    """Always `value`."""

    kind: Literal["fixed"] = "fixed"
    value: Value


class Choice(_Data):
    """One of `values`, by `weights` where given."""

    kind: Literal["choice"] = "choice"
    values: Annotated[tuple[Value, ...], Field(min_length=1, max_length=64)]
    weights: tuple[Annotated[float, Field(ge=0.0, allow_inf_nan=False)], ...] | None = None


class Uniform(_Data):
    """Uniform in [low, high], elementwise for vectors of equal length."""

    kind: Literal["uniform"] = "uniform"
    low: Finite | tuple[Finite, ...]
    high: Finite | tuple[Finite, ...]


class Normal(_Data):
    """Normal(mean, std) truncated to [low, high] by redrawing."""

    kind: Literal["normal"] = "normal"
    mean: Finite
    std: Annotated[float, Field(ge=0.0, allow_inf_nan=False, le=1000.0)]
    low: Finite
    high: Finite


class Polar(_Data):
    """A point (x, y) around `center`: radius and angle uniform in their ranges [m, rad]."""

    kind: Literal["polar"] = "polar"
    center: tuple[Finite, Finite]
    radius: tuple[Finite, Finite]
    angle: tuple[Finite, Finite]


class RelativeToRole(_Data):
    """A point (x, y) = position of `role` + an offset with `radius` and `angle` uniform."""

    kind: Literal["relative-to-role"] = "relative-to-role"
    role: Role
    radius: tuple[Finite, Finite]
    angle: tuple[Finite, Finite] = (-3.141592653589793, 3.141592653589793)


class Mixture(_Data):
    """One of `components` by `weights`."""

    kind: Literal["mixture"] = "mixture"
    components: Annotated[tuple[Simple, ...], Field(min_length=1, max_length=16)]
    weights: tuple[Annotated[float, Field(ge=0.0, allow_inf_nan=False)], ...] | None = None


Simple = Annotated[
    Fixed | Choice | Uniform | Normal | Polar | RelativeToRole, Field(discriminator="kind")
]
Sampler = Annotated[
    Fixed | Choice | Uniform | Normal | Polar | RelativeToRole | Mixture,
    Field(discriminator="kind"),
]
Mixture.model_rebuild()


class Edit(_Data):
    """Write a sampled value to one factor path, e.g. ``sigma.target.xy``.

    Paths: ``tau.task`` (first of all edits; another task starts from its own seed scene) ·
    ``tau.distractors`` · ``tau.opening`` · ``sigma.<role>.xy`` · ``sigma.<role>.yaw`` ·
    ``sigma.robot.xyz`` · ``sigma.robot.yaw`` · ``alpha.<role>.asset`` · ``.scale`` ·
    ``.mass_kg`` · ``.friction`` · ``.rgba`` · ``.damping`` of fixtures with a joint.
    """

    path: Annotated[str, Field(max_length=60)]
    sampler: Sampler


class MinSeparation(_Data):
    """Centres of two roles are at least `distance_m` apart; drawn again until it holds."""

    kind: Literal["min-separation"] = "min-separation"
    roles: tuple[Role, Role]
    distance_m: Annotated[float, Field(ge=0.0, le=1.0)]


class GenerationProgram(_Data):
    """omega: a distribution of scenes as edits of a family's seed scene, applied in order."""

    schema_version: Literal[1] = 1
    name: Annotated[str, Field(min_length=1, max_length=80)]
    family: Annotated[str, Field(max_length=40)]
    edits: Annotated[tuple[Edit, ...], Field(max_length=32)] = ()
    constraints: Annotated[tuple[MinSeparation, ...], Field(max_length=8)] = ()
    rationale: Annotated[str, Field(max_length=600)] = ""


class Issue(_Data):
    """Why a scene or a program was rejected; goes back to the scene-builder."""

    code: str
    """Kebab-case name of the gate's check, e.g. ``overlap``."""
    path: str
    value: str
    limit: str
    remedy: str

    def line(self) -> str:
        """One line for people."""
        return f"{self.code}: {self.path} = {self.value} (allowed: {self.limit}); {self.remedy}"


def plain(value: Any) -> Value:
    """Turn numpy scalars and arrays into what an edit can hold."""
    item = value.tolist() if hasattr(value, "tolist") else value
    return tuple(item) if isinstance(item, list) else item
