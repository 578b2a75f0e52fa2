"""Whether instruction, goal and verifier of a scene say the same thing, and say its task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

from coda.sim.families import family, task_of
from coda.sim.gate_codes import make_issue
from coda.sim.predicates import DEFAULT_LIMITS
from coda.sim.program import Issue
from coda.sim.scene import Relation, Scene, Verifier
from coda.sim.terms import PredicateTerm
from coda.sim.wording import bound_roles, made_by, phrase, say, says, unnamed_roles

LIMIT_FACTOR = 2.0
"""A verifier's limit, and the time that it has to hold, lie within so many times the task's own."""
VERBS: Mapping[Relation, tuple[str, ...]] = MappingProxyType(
    {
        "open": ("open", "opens", "opened", "opening"),
        "closed": ("close", "closes", "closed", "closing", "shut", "shuts"),
        "inserted": ("insert", "inserts", "inserted", "inserting", "thread", "threads"),
        "on": ("stack", "stacks", "stacked", "stacking"),
    }
)
"""Words that ask for a goal relation and for no other."""


def agreement_issues(scene: Scene) -> tuple[Issue, ...]:
    """Where instruction, goal and verifier disagree with the scene's task, or with each other.

    Raises `UnknownName` for a family or a task that does not exist.
    """
    return (*_instruction(scene), *_goal(scene), *_verifier(scene))


@cache
def telling_words(family_name: str, task_name: str) -> tuple[str, ...]:
    """Words that ask for another task: `VERBS` of other relations that no own wording says."""
    task = family(family_name).tasks[task_name]
    relation = task.seed.tau.goal.relation
    others = [word for other, words in VERBS.items() if other != relation for word in words]
    return tuple(word for word in others if not any(says(w, word) for w in task.wordings))


def _instruction(scene: Scene) -> Iterator[Issue]:
    task, text, objects = task_of(scene), scene.tau.instruction, scene.alpha.objects
    if any(say(wording, objects) == text for wording in task.wordings):
        return
    for role in unnamed_roles(scene):
        words = phrase(objects[role])
        yield make_issue(
            "instruction", "tau.instruction", text, f"must say {words!r} for the {role}",
            f"write an instruction that names the {words}",
        )  # fmt: skip
    rest = text
    for role in bound_roles(scene):  # an object may be called what another task does
        rest = re.sub(re.escape(phrase(objects[role])), " ", rest, flags=re.IGNORECASE)
    verbs = [w for w in telling_words(scene.tau.family, scene.tau.task) if says(rest, w)]
    foreign = verbs or [w for w in _foreign_wordings(scene) if made_by(w, text)]
    if foreign:
        yield make_issue(
            "instruction", "tau.instruction", text,
            f"must not say {foreign[0]!r}: the task is to {say(task.wordings[0], objects)}",
            "write an instruction for this task, or choose another task",
        )  # fmt: skip


def _foreign_wordings(scene: Scene) -> list[str]:
    """Wordings of the family's tasks that have another goal relation."""
    relation = task_of(scene).seed.tau.goal.relation
    tasks = family(scene.tau.family).tasks.values()
    return [w for t in tasks if t.seed.tau.goal.relation != relation for w in t.wordings]


def _goal(scene: Scene) -> Iterator[Issue]:
    want, have = task_of(scene).seed.tau.goal, scene.tau.goal
    for name in ("relation", "subject", "reference"):
        if getattr(have, name) != getattr(want, name):
            yield make_issue(
                "goal-mismatch", f"tau.goal.{name}", f"{getattr(have, name)}",
                f"{getattr(want, name)}, the goal of {scene.tau.family}/{scene.tau.task}",
                "leave the goal as the task has it, or choose another task",
            )  # fmt: skip


def _bare(term: PredicateTerm) -> PredicateTerm:
    return term.model_copy(update={"limit": None})


def _limit(term: PredicateTerm) -> float:
    return DEFAULT_LIMITS[term.name] if term.limit is None else term.limit


def _within(have: float, want: float) -> bool:
    return want / LIMIT_FACTOR - 1e-9 <= have <= want * LIMIT_FACTOR + 1e-9


def _verifier(scene: Scene) -> Iterator[Issue]:
    want, have = task_of(scene).seed.nu, scene.nu
    terms = Counter(_bare(term) for term in want.terms)
    if Counter(_bare(term) for term in have.terms) != terms:
        yield _mismatch("nu.terms", _text(have), f"exactly {_text(want)}")
        return
    limits = {_bare(term): _limit(term) for term in want.terms}
    for i, term in enumerate(have.terms):
        limit = limits[_bare(term)]
        if not _within(_limit(term), limit):
            allowed = f"from {limit / LIMIT_FACTOR:g} to {limit * LIMIT_FACTOR:g}"
            yield _mismatch(f"nu.terms.{i}.limit", f"{_limit(term):g}", allowed)
    if not _within(have.hold_s, want.hold_s):
        allowed = f"from {want.hold_s / LIMIT_FACTOR:g} to {want.hold_s * LIMIT_FACTOR:g} s"
        yield _mismatch("nu.hold_s", f"{have.hold_s:g}", allowed)


def _text(nu: Verifier) -> str:
    return ", ".join(str(_bare(term)) for term in nu.terms)


def _mismatch(path: str, value: str, limit: str) -> Issue:
    remedy = "leave the verifier as the task has it, or choose another task"
    return make_issue("verifier-mismatch", path, value, limit, remedy)
