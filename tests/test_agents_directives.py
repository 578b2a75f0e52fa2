"""Directives: typed actions, their folding into a steering, and what is refused."""

from __future__ import annotations

import pytest

from coda.agents.actions import FactorBias, FocusAxes, SetBand, SetModeStatus, StopAxes
from coda.agents.directives import (
    Directive,
    DirectiveError,
    Steering,
    apply_directives,
    check_action,
    parse_action,
)
from coda.sim.errors import UnknownName
from coda.sim.roles import AXES


def directives(*actions: dict[str, object]) -> list[Directive]:
    return [
        Directive(directive_id=f"d{i:03d}", text="words", action=parse_action(action))
        for i, action in enumerate(actions, start=1)
    ]


def test_the_last_word_counts_and_sources_are_kept() -> None:
    steering = apply_directives(
        Steering(),
        directives(
            {"kind": "band", "low": 0.2, "high": 0.8},
            {"kind": "band", "low": 0.3, "high": 0.6},
            {"kind": "stop-axes", "axes": ["position"]},
            {"kind": "factor-bias", "path": "alpha.target.scale", "direction": "lower"},
            {"kind": "mode-status", "mode_id": "m003", "change": "park", "reason": "enough"},
            {"kind": "mode-status", "mode_id": "m003", "change": "activate"},
            {"kind": "weight", "mode_id": "m001", "factor": 2},
            {"kind": "budget", "rounds": 5},
            {"kind": "budget", "scenes": 20},
            {"kind": "schedule", "schedule": "fixed"},
            {"kind": "new-mode", "text": "it drops tall objects", "axis": "size"},
        ),
    )
    assert steering.band == (0.3, 0.6)
    assert steering.open_axes == tuple(axis for axis in AXES if axis != "position")
    assert steering.requests == ("alpha.target.scale lower",)
    assert steering.mode_changes == (SetModeStatus(mode_id="m003", change="activate"),)
    assert steering.weights == (("m001", 2.0),)
    assert (steering.rounds, steering.scenes, steering.updates) == (5, 20, None)
    assert steering.schedule == "fixed"
    assert steering.new_modes[0].axis == "size"
    assert not steering.stop
    assert len(steering.sources) == 11


def test_focus_stop_and_resume_work_together() -> None:
    focus, stop, resume = directives(
        {"kind": "focus-axes", "axes": ["yaw", "size"]},
        {"kind": "stop-axes", "axes": ["yaw"]},
        {"kind": "resume-axes", "axes": ["yaw", "goal"]},
    )
    steering = apply_directives(Steering(), [focus, stop])
    assert steering.open_axes == ("size",)
    assert apply_directives(steering, [resume]).open_axes == ("yaw", "size", "goal")
    assert apply_directives(Steering(), [stop, resume]).open_axes == AXES


def test_stopping_the_focused_axis_ends_the_focus() -> None:
    both = directives(
        {"kind": "focus-axes", "axes": ["yaw"]}, {"kind": "stop-axes", "axes": ["yaw"]}
    )
    assert apply_directives(Steering(), both).open_axes == tuple(a for a in AXES if a != "yaw")


def test_stopping_every_axis_is_refused() -> None:
    with pytest.raises(DirectiveError, match="would leave no axis to work on"):
        check_action(StopAxes(axes=AXES), modes=[], steering=Steering())
    check_action(FocusAxes(axes=("yaw",)), modes=[], steering=Steering(stop_axes=("yaw",)))


def test_unknown_modes_are_refused_with_what_exists() -> None:
    park = SetModeStatus(mode_id="m009", change="park")
    with pytest.raises(DirectiveError, match="has no modes yet"):
        check_action(park, modes=[], steering=Steering())
    with pytest.raises(UnknownName, match=r"no mode named 'm009'.*Known: m001, m002"):
        check_action(park, modes=["m001", "m002"], steering=Steering())


def test_biases_that_no_generator_can_follow_are_refused() -> None:
    with pytest.raises(DirectiveError, match=r"alpha.receptacle.scale cannot be made lower"):
        check_action(
            FactorBias(path="alpha.receptacle.scale", direction="lower"),
            modes=[],
            steering=Steering(),
        )
    with pytest.raises(DirectiveError, match="cannot go lower than the seed scene's"):
        check_action(
            FactorBias(path="tau.distractors", direction="lower"), modes=[], steering=Steering()
        )
    check_action(
        FactorBias(path="tau.distractors", direction="higher"), modes=[], steering=Steering()
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"kind": "fly"}, "no directive of kind 'fly'; possible kinds: focus-axes"),
        ({"kind": "band", "low": 0.5, "high": 0.5}, "narrower than 10%"),
        ({"kind": "band", "low": 0.5, "high": 1.5}, "directive band.high = 1.5"),
        ({"kind": "budget"}, "names rounds, scenes or updates"),
        ({"kind": "stop-axes", "axes": ["colour"]}, "stop-axes.axes"),
    ],
)
def test_malformed_actions_are_one_line(data: dict[str, object], words: str) -> None:
    with pytest.raises(DirectiveError) as caught:
        parse_action(data)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_band_is_typed() -> None:
    assert parse_action({"kind": "band", "low": 0.3, "high": 0.6}) == SetBand(low=0.3, high=0.6)
