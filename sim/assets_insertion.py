"""Pegs, holes, nuts and posts."""

from __future__ import annotations

from coda.sim.asset import Asset

INSERTION: tuple[Asset, ...] = ()
"""Pegs, holes, nuts and posts."""
