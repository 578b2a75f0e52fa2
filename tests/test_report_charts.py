"""Charts are well-formed SVG and put their marks where the numbers say."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from coda.graphs.charts import Rate, Series, _spread, arm_bars, axis_chart, sparkline, success_chart

SVG = "{http://www.w3.org/2000/svg}"


def _rate(label: str, successes: int, trials: int) -> Rate:
    mean = successes / trials if trials else 0.0
    return Rate(
        label=label,
        successes=successes,
        trials=trials,
        low=max(0.0, mean - 0.1),
        high=min(1.0, mean + 0.1),
    )


def _series(*counts: tuple[int, int]) -> Series:
    points = [_rate(f"round {i}", s, n) for i, (s, n) in enumerate(counts)]
    return Series(name="OOD", tone="ood", points=points)


def _circles(svg: str) -> list[tuple[float, float]]:
    root = ElementTree.fromstring(svg)
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("circle")]


def test_higher_rates_stand_higher_and_rounds_go_right() -> None:
    (x0, y0), (x1, y1), (x2, y2) = _circles(success_chart([_series((0, 8), (4, 8), (8, 8))]))
    assert x0 < x1 < x2
    assert y0 > y1 > y2
    assert y0 - y1 == pytest.approx(y1 - y2)


def test_a_point_without_trials_is_left_out() -> None:
    svg = success_chart([_series((1, 8), (0, 0), (7, 8))])
    assert len(_circles(svg)) == 2
    assert "round 1: 12 %" not in svg


def test_nothing_to_show_is_still_a_chart() -> None:
    ElementTree.fromstring(success_chart([]))
    ElementTree.fromstring(success_chart([_series((0, 0))]))
    assert "not probed" in sparkline([])


def test_labels_do_not_cover_each_other() -> None:
    placed = _spread([50.0, 51.0, 10.0, 52.0], gap=16.0)
    ordered = sorted(placed)
    assert all(b - a >= 16.0 for a, b in pairwise(ordered))
    assert placed[2] == 10.0


def test_bars_are_as_long_as_their_rates() -> None:
    svg = arm_bars([("target", _rate("target", 4, 16)), ("control", _rate("control", 16, 16))])
    widths = [float(w) for w in re.findall(r'width="([\d.]+)" height="16"', svg)]
    track, target, _, control = widths
    assert target == pytest.approx(track / 4)
    assert control == pytest.approx(track)
    assert "4/16" in svg


def test_an_axis_shows_before_and_after() -> None:
    svg = axis_chart([_rate("yaw", 2, 16)], [_rate("yaw", 12, 16)], ("SFT", "final"))
    assert "yaw, SFT: 12 % (2/16" in svg
    assert "yaw, final: 75 % (12/16" in svg
    before, after = _circles(svg)
    assert before[0] < after[0]


def test_names_are_escaped() -> None:
    hostile = Series(name="<b>", tone="in", points=[_rate("<i>&", 1, 2)])
    svg = success_chart([hostile])
    ElementTree.fromstring(svg)
    assert "<b>" not in svg
    assert "<i>" not in svg
