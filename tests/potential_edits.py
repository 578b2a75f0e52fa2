"""Small changes of the base potentials: what the corpus of flawed and sound potentials is made of.

Programs are made without pydantic's own checks, which would hide some of the flaws.
"""

from __future__ import annotations

from dataclasses import dataclass

from coda.policy.potential_base import base_program
from coda.policy.program import Progress, Stage, TrainingProgram
from coda.sim.roles import Role
from coda.sim.terms import PredicateName, PredicateTerm


def term(
    name: PredicateName,
    limit: float | None = None,
    *,
    of: Role = "target",
    to: Role | None = None,
    negate: bool = False,
) -> PredicateTerm:
    """A term in few letters."""
    return PredicateTerm(name=name, subject=of, reference=to, limit=limit, negate=negate)


@dataclass(frozen=True)
class Family:
    """A family's base potential, and what its parts are called."""

    name: str
    part: Role
    """What the gripper takes."""
    main: str
    """The stage that moves it towards the goal."""
    out_of_reach: PredicateTerm
    """About the right objects, and never true."""

    @property
    def base(self) -> TrainingProgram:
        """The base potential."""
        return base_program(self.name)

    @property
    def goal(self) -> PredicateTerm:
        """What says that the object has arrived."""
        return self.stage("rest").entry[0]

    def at(self, name: str) -> int:
        """Index of a stage."""
        return [stage.name for stage in self.base.stages].index(name)

    def stage(self, name: str) -> Stage:
        """A stage of the base potential."""
        return self.base.stages[self.at(name)]

    def of(self, *stages: Stage) -> TrainingProgram:
        """The base potential with other stages."""
        return self.base.model_copy(update={"stages": stages})

    def scaled(self, *stages: Stage) -> TrainingProgram:
        """The same with their shares rescaled to sum to 1."""
        total = sum(stage.share for stage in stages)
        return self.of(*(s.model_copy(update={"share": s.share / total}) for s in stages))

    def changed(self, name: str, **fields: object) -> TrainingProgram:
        """One stage changed."""
        new = self.stage(name).model_copy(update=fields)
        return self.of(*(new if s.name == name else s for s in self.base.stages))

    def measured(
        self, name: str, start: float, end: float, by: PredicateTerm | None = None
    ) -> TrainingProgram:
        """One stage's progress over another range, or by another margin."""
        by = by or self.stage(name).progress.term
        return self.changed(name, progress=Progress(term=by, start=start, end=end))

    def backwards(self, name: str) -> TrainingProgram:
        """One stage's progress from its end to its start."""
        old = self.stage(name).progress
        return self.measured(name, old.end, old.start)

    def weighted(self, name: str, share: float, program: TrainingProgram) -> TrainingProgram:
        """One stage's share of `program` given, the others' scaled to what is left."""
        rest = sum(stage.share for stage in program.stages if stage.name != name)
        return self.of(
            *(
                s.model_copy(
                    update={"share": share if s.name == name else s.share * (1 - share) / rest}
                )
                for s in program.stages
            )
        )

    def swapped(self, one: str, other: str) -> TrainingProgram:
        """Two stages in each other's place."""
        stages = list(self.base.stages)
        i, j = self.at(one), self.at(other)
        stages[i], stages[j] = stages[j], stages[i]
        return self.of(*stages)

    def upto(self, name: str) -> tuple[Stage, ...]:
        """The stages up to one of them."""
        return self.base.stages[: self.at(name) + 1]

    def alone(self, progress: Progress) -> TrainingProgram:
        """One stage that is all of the potential."""
        return self.of(Stage(name="only", progress=progress, share=1.0))

    def in_name_only(self, progress: Progress) -> TrainingProgram:
        """One stage that is nearly all, and a goal that is never reached."""
        goal = Stage(
            name="goal",
            entry=(self.goal, self.out_of_reach),
            progress=Progress(term=self.goal, start=-0.1, end=0.0),
            share=0.05,
        )
        return self.of(Stage(name="most", progress=progress, share=0.95), goal)


FAMILIES: tuple[Family, ...] = (
    Family("pick-place", "target", "carry", term("lifted", 0.6)),
    Family("articulated", "handle", "move", term("joint_at", -0.3, of="handle")),
    Family("put-inside", "target", "carry", term("lifted", 0.6)),
    Family("stack-insert", "target", "carry", term("lifted", 0.6)),
)
