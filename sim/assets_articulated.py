"""Fixtures with a joint: drawers, doors, lids, knobs."""

from __future__ import annotations

from coda.sim.asset import Asset

ARTICULATED: tuple[Asset, ...] = ()
"""Fixtures with a joint: drawers, doors, lids, knobs."""
