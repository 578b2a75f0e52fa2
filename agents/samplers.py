"""Arithmetic on samplers: widen, shrink, bias and fix them. Used by the offline rules and by ω."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import TypeAdapter

from coda.sim.program import (
    Choice,
    Fixed,
    Mixture,
    Normal,
    Polar,
    RelativeToRole,
    Sampler,
    Uniform,
    Value,
)

Bound = float | tuple[float, ...]
_SAMPLER: TypeAdapter[Sampler] = TypeAdapter(Sampler)


def read_sampler(data: Any) -> Sampler:
    """Parse a sampler from JSON data."""
    return _SAMPLER.validate_python(data)


def centre(sampler: Sampler) -> Value | None:
    """A typical value; None where it depends on another role."""
    match sampler:
        case Fixed():
            return sampler.value
        case Choice():
            weights = sampler.weights or (1.0,) * len(sampler.values)
            return sampler.values[max(range(len(weights)), key=lambda i: weights[i])]
        case Uniform():
            middle: Value = _both(sampler.low, sampler.high, lambda a, b: (a + b) / 2.0)
            return middle
        case Normal():
            return sampler.mean
        case Polar():
            return sampler.center
        case RelativeToRole():
            return None
        case Mixture():
            return centre(sampler.components[0])


def varies(sampler: Sampler) -> bool:
    """Whether two draws can differ."""
    match sampler:
        case Fixed():
            return False
        case Choice():
            weights = sampler.weights or (1.0,) * len(sampler.values)
            live = {v for v, w in zip(sampler.values, weights, strict=False) if w > 0}
            return len(live) > 1
        case Uniform():
            return sampler.low != sampler.high
        case Normal():
            return sampler.std > 0 and sampler.low < sampler.high
        case Polar() | RelativeToRole():
            return sampler.radius[1] > 0
        case Mixture():
            return len(sampler.components) > 1 or varies(sampler.components[0])


def blend(seed: Sampler, wide: Sampler, share: float) -> Sampler:
    """A sampler between the seed range (share 0) and the wide range (share 1)."""
    share = min(max(share, 0.0), 1.0)
    low_seed, high_seed = _bounds(seed)
    low_wide, high_wide = _bounds(wide)
    if low_seed is not None and low_wide is not None:
        assert high_seed is not None
        assert high_wide is not None
        return Uniform(
            low=_both(low_seed, low_wide, lambda a, b: _at(a, b, share)),
            high=_both(high_seed, high_wide, lambda a, b: _at(a, b, share)),
        )
    if isinstance(wide, Choice):
        first = [v for v in _values(seed) if v is not None]
        more = [v for v in wide.values if v not in first]
        taken = more[: max(1, round(share * len(more)))] if more else []
        return Choice(values=tuple([*taken, *first] if share > 0 else first))
    return wide if share >= 0.5 else seed


def shrink(sampler: Sampler, towards: Value | None, keep: float) -> Sampler:
    """A narrower sampler: every bound moves to `towards`, keeping the share `keep` of its way.

    Choices lose the value farthest from `towards`; what cannot be shrunk any further becomes
    `towards` itself.
    """
    low, high = _bounds(sampler)
    if low is not None and high is not None and _numeric(towards, low):
        aim: Any = towards
        return Uniform(
            low=_both(aim, low, lambda a, b: _at(a, b, keep)),
            high=_both(aim, high, lambda a, b: _at(a, b, keep)),
        )
    if isinstance(sampler, Choice) and len(sampler.values) > 1:
        farthest = max(sampler.values, key=lambda v: _distance(v, towards))
        return Choice(values=tuple(v for v in sampler.values if v != farthest) or (farthest,))
    if isinstance(sampler, Polar):
        r0, r1 = sampler.radius
        return sampler.model_copy(update={"radius": (r0 * keep, r1 * keep)})
    if isinstance(sampler, RelativeToRole):
        r0, r1 = sampler.radius  # farther from the other role is the safer side
        return sampler.model_copy(update={"radius": (_at(r1, r0, keep), r1 / max(keep, 0.5))})
    return sampler if towards is None else Fixed(value=towards)


def bias(
    sampler: Sampler, seed: Sampler, wide: Sampler, direction: Literal["lower", "higher"]
) -> Sampler:
    """Keep the side of the range below (or above) the seed's centre; reach for the wide bound."""
    middle = centre(seed)
    if isinstance(wide, Choice):
        side = tuple(v for v in wide.values if _beyond(v, middle, direction))
        return Choice(values=side) if side else sampler
    low_wide, high_wide = _bounds(wide)
    low, high = _bounds(sampler)
    if low_wide is None or high_wide is None or low is None or not _numeric(middle, low_wide):
        return sampler
    assert high is not None
    aim: Any = middle
    if direction == "lower":
        edge = _both(low, _both(aim, low_wide, lambda a, b: _at(a, b, 0.66)), min)
        return Uniform(low=edge, high=_both(edge, aim, lambda a, b: _at(a, b, 0.85)))
    edge = _both(high, _both(aim, high_wide, lambda a, b: _at(a, b, 0.66)), max)
    return Uniform(low=_both(edge, aim, lambda a, b: _at(a, b, 0.85)), high=edge)


def narrowed(sampler: Sampler, low: Bound, high: Bound) -> Sampler:
    """A uniform sampler cut to [low, high], at least a tenth of its own width; others unchanged."""
    if not isinstance(sampler, Uniform):
        return sampler
    least = _both(sampler.high, sampler.low, lambda b, a: (b - a) / 10.0)
    middle = _both(low, high, lambda a, b: (a + b) / 2.0)
    first = _both(low, _both(middle, least, lambda m, w: m - w / 2.0), min)
    last = _both(high, _both(middle, least, lambda m, w: m + w / 2.0), max)
    return Uniform(
        low=_both(_both(first, sampler.low, max), 0.0, lambda a, _: round(a, 4)),
        high=_both(_both(last, sampler.high, min), 0.0, lambda a, _: round(a, 4)),
    )


def _bounds(sampler: Sampler) -> tuple[Bound | None, Bound | None]:
    """Numeric bounds, or (None, None) where the sampler has none of its own."""
    match sampler:
        case Uniform() | Normal():
            return sampler.low, sampler.high
        case Fixed(value=int() | float() as value):
            return float(value), float(value)
        case Fixed(value=tuple() as value):
            return value, value
        case Mixture():
            pairs = [_bounds(part) for part in sampler.components]
            if any(low is None for low, _ in pairs):
                return None, None
            low, high = pairs[0]
            for a, b in pairs[1:]:
                assert low is not None
                assert high is not None
                assert a is not None
                assert b is not None
                low, high = _both(low, a, min), _both(high, b, max)
            return low, high
        case _:
            return None, None


def _values(sampler: Sampler) -> tuple[Value | None, ...]:
    return sampler.values if isinstance(sampler, Choice) else (centre(sampler),)


def _numeric(value: Any, like: Bound) -> bool:
    if isinstance(like, tuple):
        return isinstance(value, tuple) and len(value) == len(like)
    return isinstance(value, int | float)


def _beyond(value: Any, middle: Any, direction: str) -> bool:
    if not isinstance(value, int | float) or not isinstance(middle, int | float):
        return False
    return value < middle if direction == "lower" else value > middle


def _distance(value: Any, towards: Any) -> float:
    if isinstance(value, int | float) and isinstance(towards, int | float):
        return abs(float(value) - float(towards))
    return float(value != towards)


def _at(start: float, end: float, share: float) -> float:
    return round(start + share * (end - start), 4)


def _both(a: Any, b: Any, op: Callable[[float, float], float]) -> Any:
    """Apply `op` to two numbers, or elementwise where either is a vector."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        size = len(a) if isinstance(a, tuple) else len(b)
        left = a if isinstance(a, tuple) else (a,) * size
        right = b if isinstance(b, tuple) else (b,) * size
        return tuple(float(op(x, y)) for x, y in zip(left, right, strict=True))
    return float(op(a, b))
