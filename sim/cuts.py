"""How each family's axes are cut into cells, and how far from the seed range is away."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Numbers of one family; `coda.sim.cells` says what they are for."""

    scale_parts: tuple[int, int]
    """Cells of scale below and above the seed range."""
    load: Literal["mass_kg", "damping"] = "mass_kg"
    """What makes the target hard to move."""
    load_edges: tuple[float, ...]
    friction_edges: tuple[float, ...]
    near_edges: tuple[float, ...] = (0.0, 0.09, 0.12, 0.16, math.inf)
    """Bands of the nearest distractor's centre distance to the target [m]."""
    opening_parts: int = 10
    """Parts of the initial opening that a task allows."""
    away_m: float = 0.14
    """Least distance from the centre of the seed range, of target or receptacle [m]."""
    away_yaw: float = 1.0
    """Least turn [rad]."""
    away_width_m: float | None = 0.066
    """Least width between the fingers, which open to 0.08 m [m]; None: `away_scale` instead."""
    away_scale: tuple[float, float] = (0.0, math.inf)
    """Scale at most, or at least."""
    friction_power: float = 1.0
    """Power of friction that divides the load: 1 for what the gripper carries, 0 for damping."""
    away_load: float = 2.0
    """Least load over friction; the gate's limit for masses is `gate_checks.GRIP_LOAD_KG`."""
    away_opening: float = 0.25
    """Least difference of the initial opening from the seed's."""
    away_near_m: float = 0.12
    """Largest distance of the nearest distractor to the target, centre to centre [m]."""
    away_distractors: int = 2
    """Fewest distractors."""


CUTS: Mapping[str, Cuts] = MappingProxyType(
    {
        "pick-place": Cuts(
            scale_parts=(5, 17),
            load_edges=(0.03, 0.06, 0.11, 0.13, 0.25, 0.50, 0.90, 1.50),
            friction_edges=(0.20, 0.40, 0.60, 0.95, 1.05, 1.25, 1.50),
        ),
        "articulated": Cuts(
            scale_parts=(5, 5),
            load="damping",
            load_edges=(0.25, 0.50, 0.80, 1.25, 2.00, 3.00, 4.00),
            friction_edges=(0.40, 0.60, 0.95, 1.05, 1.25, 1.50),
            near_edges=(0.0, 0.14, 0.18, 0.22, math.inf),
            away_m=0.07,
            away_yaw=0.35,
            away_width_m=None,
            away_scale=(0.88, 1.12),
            friction_power=0.0,
            away_load=2.5,
            away_near_m=0.20,
        ),
        "put-inside": Cuts(
            scale_parts=(5, 13),
            opening_parts=3,
            load_edges=(0.03, 0.06, 0.09, 0.11, 0.25, 0.50, 0.90, 1.50),
            friction_edges=(0.20, 0.40, 0.60, 0.95, 1.05, 1.25, 1.50),
        ),
        "stack-insert": Cuts(
            scale_parts=(5, 5),
            load_edges=(0.03, 0.06, 0.10, 0.20, 0.35, 0.50, 0.70),
            friction_edges=(0.40, 0.50, 0.65, 0.95, 1.05, 1.25, 1.50),
            away_width_m=None,
            away_scale=(0.86, 1.10),
            away_load=1.0,
        ),
    }
)
"""By family."""
