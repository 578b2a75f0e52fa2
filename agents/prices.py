"""List prices of known models. An unknown model has no price: its cost is shown as unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from coda.sim.errors import CodaError

PRICES_OF = "2026-11"
"""Month in which the table was compared with the vendors' pages; the configuration overrides it."""


class PriceError(CodaError):
    """A price in the configuration cannot be read."""


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    input_usd: float
    output_usd: float


PRICES: Mapping[str, Price] = MappingProxyType(
    {
        "gpt-4o": Price(2.50, 10.0),
        "gpt-4o-mini": Price(0.15, 0.60),
        "gpt-4.1": Price(2.0, 8.0),
        "gpt-4.1-mini": Price(0.40, 1.60),
        "gpt-4.1-nano": Price(0.10, 0.40),
        "gpt-5": Price(1.25, 10.0),
        "gpt-5-mini": Price(0.25, 2.0),
        "gpt-5-nano": Price(0.05, 0.40),
        "gpt-5.1": Price(1.25, 10.0),
        "gpt-5.2": Price(1.75, 14.0),
        "gpt-5.4": Price(2.50, 15.0),
        "gpt-5.4-mini": Price(0.75, 4.50),
        "gpt-5.4-nano": Price(0.20, 1.25),
        "gpt-5.5": Price(5.0, 30.0),
        "gpt-5.6-luna": Price(0.20, 1.20),
        "gpt-5.6-sol": Price(5.0, 30.0),
        "gpt-5.6-terra": Price(2.0, 12.0),
        "o3": Price(2.0, 8.0),
        "o4-mini": Price(1.10, 4.40),
        "claude-haiku-4-5": Price(1.0, 5.0),
        "claude-sonnet-4-5": Price(3.0, 15.0),
        "claude-sonnet-4-6": Price(3.0, 15.0),
        "claude-sonnet-5": Price(2.0, 10.0),
        "claude-sonnet-5-5": Price(2.0, 10.0),
        "claude-opus-4-5": Price(5.0, 25.0),
        "claude-opus-4-6": Price(5.0, 25.0),
        "claude-opus-4-7": Price(5.0, 25.0),
        "claude-opus-4-8": Price(5.0, 25.0),
        "claude-opus-5": Price(5.0, 25.0),
        "claude-opus-5-5": Price(4.0, 20.0),
        "claude-fable-5": Price(10.0, 50.0),
        "claude-fable-5-1": Price(10.0, 50.0),
    }
)

DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


def read_prices(table: Mapping[str, tuple[float, float]]) -> dict[str, Price]:
    """Prices of a configuration: model name → (input, output) [US dollar per million tokens].

    Raises:
        PriceError: A price is negative or not a number.
    """
    prices: dict[str, Price] = {}
    for name, (input_usd, output_usd) in table.items():
        if not (0.0 <= input_usd < float("inf") and 0.0 <= output_usd < float("inf")):
            raise PriceError(
                f"price of {name!r} = ({input_usd}, {output_usd}): give two amounts >= 0, "
                "US dollars per million input and output tokens."
            )
        prices[name] = Price(input_usd, output_usd)
    return prices


def price_of(name: str, overrides: Mapping[str, Price] | None = None) -> Price | None:
    """Price of a model by its exact name or that name without a date; None where unknown."""
    plain = DATED.sub("", name)
    for table in (overrides or {}, PRICES):
        for candidate in (name, plain):
            if candidate in table:
                return table[candidate]
    return None


def cost_usd(price: Price | None, tokens_in: int, tokens_out: int) -> float | None:
    """Cost of a call [US dollar]; None where the price is unknown.

    Cached and long-context input count at the plain input price.
    """
    if price is None:
        return None
    return (tokens_in * price.input_usd + tokens_out * price.output_usd) / 1e6
