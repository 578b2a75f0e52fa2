"""A scene's factors by group, with the paths that a generation program edits them by."""

from __future__ import annotations

from collections.abc import Iterator

from coda.sim.factors import scene_factors
from coda.sim.paths import read_factor
from coda.sim.program import Value
from coda.sim.scene import Scene

GROUPS = (("tau", "τ task"), ("sigma", "σ spatial"), ("alpha", "α attributes"))


def factor_lines(scene: Scene) -> list[str]:
    """Comment lines ``# path = value (allowed)`` by group, the verifier last."""
    lines: list[str] = []
    own = scene_factors(scene)
    for group, title in GROUPS:
        lines.append(f"# {title}")
        if group == "tau":
            lines += [f"#   {name} = {value}" for name, value in _task(scene)]
        for path, f in own.items():
            if path.startswith(f"{group}."):
                lines.append(f"#   {path} = {_text(read_factor(scene, path))}  ({f.limit()})")
    lines.append("# ν verifier")
    lines += [f"#   {term}" for term in scene.nu.terms]
    lines.append(f"#   held for {scene.nu.hold_s:g} s")
    return lines


def _task(scene: Scene) -> Iterator[tuple[str, str]]:
    tau = scene.tau
    goal = [tau.goal.subject, tau.goal.relation, tau.goal.reference]
    yield "family/task", f"{tau.family}/{tau.task}"
    yield "instruction", tau.instruction
    yield "goal", " ".join(word for word in goal if word)


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(f"{v:.4g}" for v in value) + ")"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
