"""What a round trained on, as a file: programs, potentials and weights of its targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coda.policy.potential import BlendedPotential, Potential, StatePotential
from coda.policy.program import TrainingProgram
from coda.sim.errors import CodaError
from coda.sim.program import GenerationProgram
from coda.sim.scene import first_problem
from coda.tools.collecting import Target


class TargetsError(CodaError):
    """A file of targets cannot be read."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Target(_Data):
    label: Annotated[str, Field(max_length=200)]
    weight: Annotated[float, Field(ge=0.0)]
    omega: GenerationProgram
    phi: TrainingProgram


class TargetsFile(_Data):
    """A round's targets and the family's own potential."""

    schema_version: Literal[1] = 1
    base: TrainingProgram
    targets: tuple[_Target, ...]

    @classmethod
    def of(cls, targets: Sequence[Target], base: Potential) -> TargetsFile:
        """As data."""
        return cls(
            base=base.program,
            targets=tuple(
                _Target(label=t.label, weight=t.weight, omega=t.program, phi=t.potential.program)
                for t in targets
            ),
        )

    def compiled(self) -> tuple[tuple[Target, ...], Potential]:
        """Targets and the family's own potential; equal programs share one `Potential`."""
        known = {self.base.model_dump_json(): Potential(self.base)}
        base = known[self.base.model_dump_json()]
        targets = tuple(
            Target(
                label=item.label,
                program=item.omega,
                potential=known.setdefault(item.phi.model_dump_json(), Potential(item.phi)),
                weight=item.weight,
            )
            for item in self.targets
        )
        return targets, base


def save_targets(path: Path, targets: Sequence[Target], base: Potential) -> None:
    """Write a round's targets and the family's own potential as JSON."""
    file = TargetsFile.of(targets, base)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(file.model_dump_json(indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def read_targets(path: Path) -> TargetsFile:
    """Read what `save_targets` wrote. Raises `TargetsError`."""
    try:
        return TargetsFile.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TargetsError(
            f"cannot read the targets {path}: {error.strerror}; give a file of a run's training "
            "folder."
        ) from None
    except ValidationError as error:
        raise TargetsError(f"{path}: {first_problem('targets', error)}") from None


def load_targets(path: Path) -> tuple[tuple[Target, ...], Potential]:
    """Targets and the family's own potential, as `TargetsFile.compiled`. Raises `TargetsError`."""
    return read_targets(path).compiled()


def value_potential(targets: Sequence[Target], base: Potential) -> StatePotential:
    """Phi of a round's value learning: the mean of its targets' potentials, by weight.

    One function of the state for every stored transition, so that shaping stays exact whatever
    scene a state comes from; a mean of potentials is a potential. The family's own comes first:
    its stages are those that the critic is told. Where no target has one of its own, it is all.
    """
    parts: dict[str, Potential] = {base.program.model_dump_json(): base}
    weights: dict[str, float] = dict.fromkeys(parts, 0.0)
    for target in targets:
        key = target.potential.program.model_dump_json()
        parts.setdefault(key, target.potential)
        weights[key] = weights.get(key, 0.0) + max(target.weight, 0.0)
    if len(parts) == 1:
        return base
    return BlendedPotential(list(parts.values()), list(weights.values()))
