"""Containers to put things into: bins, baskets, drawers of cabinets."""

from __future__ import annotations

from coda.sim.asset import Asset

CONTAINERS: tuple[Asset, ...] = ()
"""Containers to put things into: bins, baskets, drawers of cabinets."""
