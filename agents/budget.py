"""The run's budget for language models: tokens and money, checked before every call."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from coda.sim.errors import CodaError


class BudgetExhausted(CodaError):
    """The tokens or the money of a run are used up; raised before a call, never after one."""


@dataclass(frozen=True)
class Spent:
    """What was used so far."""

    tokens: int
    usd: float
    """Cost of the calls whose price is known [US dollar]."""
    unpriced_tokens: int
    """Tokens of calls whose price is unknown."""


class Budget:
    """Caps of a run; safe to share between threads. None means no cap."""

    def __init__(
        self,
        max_tokens: int | None = None,
        max_usd: float | None = None,
        *,
        tokens: int = 0,
        usd: float = 0.0,
    ) -> None:
        """`tokens`, `usd`: already spent, from the journal of a run that is resumed.

        Raises:
            CodaError: A cap is negative.
        """
        for name, cap in (("max_tokens", max_tokens), ("max_usd", max_usd)):
            if cap is not None and not cap >= 0:
                raise CodaError(f"budget {name} = {cap}: give a number >= 0, or none for no cap.")
        self.max_tokens = max_tokens
        self.max_usd = max_usd
        self._tokens = tokens
        self._usd = usd
        self._unpriced = 0
        self._lock = threading.Lock()

    def check(self, *, priced: bool = True) -> None:
        """Raise `BudgetExhausted` if a cap is reached.

        `priced`: whether the next call's price is known; if not, only tokens are held against it.
        """
        spent = self.spent
        if self.max_tokens is not None and spent.tokens >= self.max_tokens:
            raise BudgetExhausted(
                f"the token budget is used up: {spent.tokens} of {self.max_tokens}; "
                "raise models.max_tokens and go on with `coda run --resume`."
            )
        if priced and self.max_usd is not None and spent.usd >= self.max_usd:
            raise BudgetExhausted(
                f"the money budget is used up: {spent.usd:.2f} of {self.max_usd:.2f} US dollars; "
                "raise models.max_usd and go on with `coda run --resume`."
            )

    def spend(self, tokens: int, usd: float | None) -> None:
        """Count a call; `usd` None where its price is unknown."""
        with self._lock:
            self._tokens += tokens
            if usd is None:
                self._unpriced += tokens
            else:
                self._usd += usd

    @property
    def spent(self) -> Spent:
        """What was used so far."""
        with self._lock:
            return Spent(self._tokens, self._usd, self._unpriced)
