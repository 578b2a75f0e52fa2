"""Small SVG charts for the report: no script, colours from the page's style sheet.

Rates are fractions in [0, 1]. Every mark carries a ``<title>``, so that the numbers show on hover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A measured success rate with its 95 % interval."""

    label: str
    """Where it was measured, e.g. a round or an axis."""
    successes: int
    trials: int
    low: float
    high: float

    @property
    def mean(self) -> float:
        """Observed rate; 0 when nothing was tried."""
        return self.successes / self.trials if self.trials else 0.0

    @property
    def text(self) -> str:
        """For people, e.g. ``63 % (40/64; 50–74 %)``."""
        if not self.trials:
            return "not measured"
        interval = f"{100 * self.low:.0f}–{100 * self.high:.0f} %"
        return f"{100 * self.mean:.0f} % ({self.successes}/{self.trials}; {interval})"


@dataclass(frozen=True, kw_only=True)
class Series:
    """A named line of rates; `tone` is a colour class of the style sheet."""

    name: str
    tone: str
    points: Sequence[Rate]


@dataclass(frozen=True, kw_only=True)
class _Plane:
    """Maps (index, rate) to pixels inside the margins of a chart."""

    width: float
    height: float
    count: int
    left: float = 48.0
    right: float = 96.0
    top: float = 12.0
    bottom: float = 32.0
    pad: float = 28.0

    def x(self, index: int) -> float:
        inner = self.width - self.left - self.right - 2 * self.pad
        return self.left + self.pad + inner * (index / (self.count - 1) if self.count > 1 else 0.5)

    def y(self, rate: float) -> float:
        return self.top + (self.height - self.top - self.bottom) * (1.0 - rate)

    def grid(self) -> str:
        parts = []
        for percent in (0, 25, 50, 75, 100):
            y = self.y(percent / 100)
            parts.append(_rule(self.left, self.width - self.right, y))
            parts.append(_text(self.left - 8, y + 4, f"{percent} %", "end"))
        return "".join(parts)


def success_chart(series: Sequence[Series], *, width: int = 960, height: int = 300) -> str:
    """Lines of success rates over shared positions (rounds), with interval whiskers.

    All series have the same labels in the same order; a point without trials is left out.
    """
    shown = [item for item in series if item.points]
    labels = [point.label for point in shown[0].points] if shown else []
    plane = _Plane(width=width, height=height, count=len(labels))
    parts = [plane.grid()]
    parts += [_text(plane.x(i), height - 10, label, "middle") for i, label in enumerate(labels)]
    ends = _spread([plane.y(item.points[-1].mean) for item in shown], gap=16.0)
    for k, (item, end) in enumerate(zip(shown, ends, strict=True)):
        shift = 6.0 * (k - (len(shown) - 1) / 2)  # so that whiskers do not cover each other
        parts.append(_polyline(item, plane, shift))
        last = item.points[-1]
        if last.trials:
            name = f"{item.name} {100 * last.mean:.0f} %"
            at = plane.x(len(labels) - 1) + 16
            parts.append(_text(at, end + 4, name, "start", f"label {item.tone}"))
    return _svg(width, height, "Success per round", parts)


def _polyline(item: Series, plane: _Plane, shift: float) -> str:
    marks: list[str] = []
    path: list[str] = []
    for i, point in enumerate(item.points):
        if not point.trials:
            continue
        x, y = plane.x(i) + shift, plane.y(point.mean)
        path.append(f"{x:.1f},{y:.1f}")
        title = f"<title>{escape(f'{item.name}, {point.label}: {point.text}')}</title>"
        whisker = f"M{x:.1f} {plane.y(point.low):.1f}V{plane.y(point.high):.1f}"
        marks.append(
            f'<g>{title}<path class="whisker" d="{whisker}"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/></g>'
        )
    line = f'<polyline points="{" ".join(path)}"/>'
    return f'<g class="series {item.tone}">{line}{"".join(marks)}</g>'


def axis_chart(
    before: Sequence[Rate], after: Sequence[Rate], names: tuple[str, str], *, width: int = 960
) -> str:
    """One row an axis: the rate before and after, with intervals, joined by a line."""
    row, left, right, top = 34.0, 110.0, 28.0, 24.0
    height = top + row * len(after) + 6

    def x(rate: float) -> float:
        return left + (width - left - right) * rate

    parts = []
    for percent in (0, 25, 50, 75, 100):
        at = x(percent / 100)
        parts.append(f'<path class="grid" d="M{at:.1f} {top}V{height - 6:.0f}"/>')
        parts.append(_text(at, 14, f"{percent} %", "middle"))
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        y = top + row * (i + 0.5)
        parts.append(_text(left - 12, y + 4, new.label, "end", "name"))
        if old.trials and new.trials:
            parts.append(f'<path class="link" d="M{x(old.mean):.1f} {y}H{x(new.mean):.1f}"/>')
        for rate, tone, name, dy in ((old, "before", names[0], -5), (new, "ood", names[1], 5)):
            if not rate.trials:
                continue
            title = escape(f"{rate.label}, {name}: {rate.text}")
            parts.append(
                f'<g class="series {tone}"><title>{title}</title>'
                f'<path class="whisker" d="M{x(rate.low):.1f} {y + dy}H{x(rate.high):.1f}"/>'
                f'<circle cx="{x(rate.mean):.1f}" cy="{y + dy}" r="4.5"/></g>'
            )
    return _svg(width, height, "Success per axis", parts)


def arm_bars(arms: Sequence[tuple[str, Rate]], *, width: int = 420) -> str:
    """Horizontal bars of the arms of a control test, each with its count."""
    row, left, right = 26.0, 72.0, 66.0
    height = row * len(arms) + 4
    parts = []
    for i, (name, rate) in enumerate(arms):
        y = row * i + 5
        inner = width - left - right
        title = escape(f"{name}: {rate.text}")
        parts.append(
            f'<g class="bar {escape(name)}"><title>{title}</title>'
            f'<rect class="track" x="{left}" y="{y}" width="{inner}" height="16" rx="3"/>'
            f'<rect x="{left}" y="{y}" width="{inner * rate.mean:.1f}" height="16" rx="3"/></g>'
        )
        parts.append(_text(left - 8, y + 12.5, name, "end", "name"))
        count = f"{rate.successes}/{rate.trials}"
        parts.append(_text(width - right + 8, y + 12.5, count, "start", "name"))
    return _svg(width, height, "Arms of the control test", parts)


def sparkline(points: Sequence[Rate], *, width: int = 150, height: int = 34) -> str:
    """A mode's probe history: rate against probe, first to last."""
    if not points:
        return '<span class="dim">not probed</span>'
    plane = _Plane(
        width=width, height=height, count=len(points), left=2, right=2, top=5, bottom=5, pad=4
    )
    parts = [_rule(0, width, plane.y(0.0)), _rule(0, width, plane.y(1.0))]
    parts.append(_polyline(Series(name="probe", tone="probe", points=points), plane, 0.0))
    return _svg(width, height, "Probe history", parts, klass="spark")


def _spread(ys: Sequence[float], gap: float) -> list[float]:
    """Move label heights apart until they are `gap` pixels from each other; order is kept."""
    order = sorted(range(len(ys)), key=lambda i: ys[i])
    placed = list(ys)
    for lower, upper in pairwise(order):
        placed[upper] = max(placed[upper], placed[lower] + gap)
    return placed


def _rule(x1: float, x2: float, y: float) -> str:
    return f'<path class="grid" d="M{x1:.1f} {y:.1f}H{x2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str, klass: str = "tick") -> str:
    return (
        f'<text class="{klass}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _svg(
    width: float, height: float, title: str, parts: Sequence[str], klass: str = "chart"
) -> str:
    return (
        f'<svg class="{klass}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )
