"""Hypothesis strategies: sound generation programs of any family."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from coda.sim.factors import Factor, joined, task_factors
from coda.sim.families import FAMILIES, family
from coda.sim.program import (
    Choice,
    Edit,
    Fixed,
    GenerationProgram,
    Mixture,
    Polar,
    RelativeToRole,
    Sampler,
    Uniform,
)


def samplers(f: Factor) -> st.SearchStrategy[Sampler]:
    """Samplers that fit a factor's type, with bounds anywhere in its range."""
    if f.kind == "name":
        names = st.lists(st.sampled_from(f.names), min_size=1, max_size=4)
        return names.map(lambda values: Choice(values=tuple(values)))
    if f.kind == "count":
        return st.integers(0, int(f.high[0])).map(lambda value: Fixed(value=value))
    spans = [
        st.tuples(st.floats(a, b), st.floats(a, b)).map(sorted)
        for a, b in zip(f.low, f.high, strict=True)
    ]

    def uniform(pairs: tuple[list[float], ...]) -> Sampler:
        low, high = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
        if f.kind == "number":
            return Uniform(low=low[0], high=high[0])
        return Uniform(low=low, high=high)

    plain: st.SearchStrategy[Sampler] = st.tuples(*spans).map(uniform)
    if not f.path.endswith(".xy"):
        return plain
    middle = ((f.low[0] + f.high[0]) / 2, (f.low[1] + f.high[1]) / 2)
    ring = Polar(center=middle, radius=(0.0, 0.25), angle=(-math.pi, math.pi))
    near = RelativeToRole(role="target", radius=(0.08, 0.2))
    extra: list[Sampler] = [ring] if f.path == "sigma.target.xy" else [ring, near]
    return st.one_of(plain, st.sampled_from(extra), st.just(Mixture(components=tuple(extra))))  # type: ignore[arg-type]


@st.composite
def programs(draw: st.DrawFn, name: str | None = None) -> GenerationProgram:
    """A program without semantic issues, of one family or any."""
    item = family(name or draw(st.sampled_from(sorted(FAMILIES))))
    tasks = [next(iter(item.tasks))]
    edits: list[Edit] = []
    if len(item.tasks) > 1 and draw(st.booleans()):
        tasks = draw(st.lists(st.sampled_from(list(item.tasks)), min_size=1, unique=True))
        edits.append(Edit(path="tau.task", sampler=Choice(values=tuple(tasks))))
    table = dict(joined(task_factors(item.name, task) for task in tasks))
    table.pop("tau.task", None)
    paths = draw(st.lists(st.sampled_from(sorted(table)), unique=True, max_size=8))
    paths.sort(key=lambda p: (p != "tau.distractors", p != "sigma.target.xy"))
    crowd = any("distractor-" in path for path in paths)
    if crowd or "tau.distractors" in paths:
        count = Fixed(value=3) if crowd else draw(samplers(table["tau.distractors"]))
        edits.append(Edit(path="tau.distractors", sampler=count))
    for path in paths:
        if path != "tau.distractors":
            edits.append(Edit(path=path, sampler=draw(samplers(table[path]))))
    return GenerationProgram(name="drawn", family=item.name, edits=tuple(edits))
