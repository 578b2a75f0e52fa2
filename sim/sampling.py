"""Draw scenes from a generation program, redrawing within bounds until the cheap checks hold.

Edits are applied in order to the family's seed scene. A distractor that the program switches on
without describing it gets a random place, yaw, asset and colour. Edits of a distractor that this
draw leaves off are skipped. When a draw breaks a check (placement, separation, ambiguous words, a
held-out cell under the guard), only the edits that can cure it are drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from coda.sim.cells import cell, fold_yaw
from coda.sim.errors import SceneError
from coda.sim.families import family
from coda.sim.gate_checks import Finding, separation, static_findings
from coda.sim.gate_codes import make_issue
from coda.sim.paths import FACTORS, OBJECTS, Factor, check_value, factor, put
from coda.sim.program import (
    Choice,
    Edit,
    Fixed,
    GenerationProgram,
    Issue,
    Mixture,
    Normal,
    Polar,
    RelativeToRole,
    Sampler,
    Uniform,
    Value,
    plain,
)
from coda.sim.roles import AXES, DISTRACTORS, Axis
from coda.sim.scene import WORKSPACE_PLACEHOLDER, Scene  # noqa: F401
from coda.sim.splits import Splits
from coda.sim.wording import COLOURS, reword, rgba_of

MAX_DRAWS = 200
"""Draws of one scene before it is given up."""
WIDEN_EVERY = 8
"""After so many draws in vain, every edit that could cure a finding is redrawn, not the first."""
DECIMALS = 6


class Rejected(SceneError):
    """No scene could be drawn; `issues` says why."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(issue.line() for issue in self.issues[:3]) + ".")
