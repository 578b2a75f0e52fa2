"""Answers that are refused are `NoAnswer`; this name stays for callers that catch it."""

from __future__ import annotations

from coda.agents.record import NoAnswer as NotAcceptable

__all__ = ["NotAcceptable"]
