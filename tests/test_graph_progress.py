"""The live view: what it prints, and how it guesses the time left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coda.graphs.events import RunEvent
from coda.graphs.progress import Eta, LiveView, PlainView, clock_text, make_view, rate_text

OOD = RunEvent(
    kind="success",
    round=1,
    node="measure",
    text="OOD success 41 %",
    data={"split": "ood", "successes": 26, "trials": 64, "low": 0.295, "high": 0.529},
)


def test_a_pipe_gets_plain_lines_without_steps() -> None:
    out = io.StringIO()
    with make_view(Console(file=out), rounds=3) as view:
        assert isinstance(view, PlainView)
        view(RunEvent(kind="step", round=1, node="train", text="x", data={"done": 1, "total": 2}))
        view(RunEvent(kind="fact", round=1, node="build", text="48 of 60 scenes [accepted]"))
        view(OOD)
    assert out.getvalue() == (
        "[r01 build] 48 of 60 scenes [accepted]\n[r01 measure] OOD success 41 %\n"
    )


def test_quiet_prints_nothing() -> None:
    out = io.StringIO()
    with make_view(Console(file=out), rounds=3, quiet=True) as view:
        view(OOD)
    assert not out.getvalue()


def test_a_terminal_shows_round_node_counts_and_success() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with make_view(console, rounds=3) as view:
        assert isinstance(view, LiveView)
        view(RunEvent(kind="node-started", round=0, node="seed"))
        view(RunEvent(kind="node-finished", round=0, node="seed"))
        view(OOD)
        view(RunEvent(kind="node-started", round=2, node="refute"))
        data = {"done": 8, "total": 24}
        view(RunEvent(kind="step", round=2, node="refute", text="pairs of d1", data=data))
    shown = out.getvalue()
    for words in ("round 2/3", "refute", "8/24 pairs of d1", "41 % [30, 53]  26/64", "left"):
        assert words in shown


def test_nothing_is_guessed_before_the_first_node_is_done() -> None:
    assert Eta(3, clock=lambda: 0.0).left_s(0, "seed", 0.5) is None


def test_the_time_left_follows_the_nodes_already_done() -> None:
    now = 0.0
    eta = Eta(1, clock=lambda: now)
    eta.start()
    now = 60.0  # twice the typical 30
    eta.finish("seed")
    first = eta.left_s(1, "plan", 0.0)
    half = eta.left_s(1, "measure", 0.5)
    assert first is not None
    assert half is not None
    assert half == pytest.approx(25.0)
    assert first > half


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (65.4, "1:05"), (3671, "1:01:11")])
def test_clock(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_a_rate_shows_its_interval_and_its_counts() -> None:
    assert rate_text(OOD) == "41 % [30, 53]  26/64"
