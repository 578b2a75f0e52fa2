"""The guard over held-out cells, as findings that name the paths which could cure them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from coda.sim.cells import away, cell_paths
from coda.sim.gate_checks import Finding
from coda.sim.gate_codes import make_issue
from coda.sim.roles import AXES, Axis
from coda.sim.scene import Scene
from coda.sim.splits import Splits

NOWHERE_HELD_OUT: Mapping[Axis, bool] = MappingProxyType({axis: False for axis in AXES})
"""What the guard wants of a training scene."""


def _paths(axis: Axis, scene: Scene, splits: Splits, wanted: bool) -> tuple[str, ...]:
    """Paths that move a scene out of its cell of `axis`, the most direct first."""
    if axis == "asset" and not wanted:
        held = [r for r in scene.roles if scene.alpha.objects[r].asset in splits.held["asset"]]
        return tuple(f"alpha.{role}.asset" for role in held)
    return cell_paths(axis, scene)


def split_findings(scene: Scene, splits: Splits, want: Mapping[Axis, bool]) -> Iterator[Finding]:
    """Axes of `want` on which the scene's cell is held out though it should not be, or not.

    Where held out is wanted, the scene has to lie away from the seed range on that axis too.

    Where the asset axis is wanted held out, the target's own asset has to be.
    """
    held_out = splits.held_out(scene)
    for axis, wanted in want.items():
        held = axis in held_out
        if axis == "asset" and wanted:
            held = scene.alpha.objects["target"].asset in splits.held["asset"]
        if wanted:
            held = held and away(axis, scene)
        if held == wanted:
            continue
        paths = _paths(axis, scene, splits, wanted)
        issue = make_issue(
            "held-out", paths[0], f"{axis} cell {splits.cell_name(axis, scene)}",
            "a held-out cell away from the seed range"
            if wanted
            else "a cell that is not held out for evaluation",
            "give the path a range that also covers other cells",
        )  # fmt: skip
        yield Finding(issue=issue, paths=paths)
