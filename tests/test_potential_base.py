"""The staged potential: a function of the state that climbs to 1 along a success."""

from __future__ import annotations

import numpy as np
import pytest

from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.sim.errors import UnknownName
from coda.sim.families import family
from coda.sim.frame import SimFrame, concat
from tests.policy_world import fine, never_closing, never_releasing, successes

BASE = Potential(base_program("pick-place"))


def test_it_climbs_from_near_zero_to_one_along_successes() -> None:
    for states in fine(successes()):
        value = BASE.evaluate(states)
        assert value.phi.min() >= 0.0
        assert value.phi.max() <= 1.0
        assert value.phi[0] < 0.25
        assert value.phi[-1] > 0.95
        assert (np.maximum.accumulate(value.phi) - value.phi).max() < 0.1
        assert np.diff(value.phi).max() < 0.3


def test_failures_stop_in_the_stage_that_fails() -> None:
    names = list(BASE.stages)
    for states in fine(never_closing()):
        phi = BASE.evaluate(states)
        assert names[int(phi.stage[np.argmax(phi.phi)])] in ("descend", "grasp")
        assert phi.phi.max() < 0.5
    for states in fine(never_releasing()):
        phi = BASE.evaluate(states)
        assert names[int(phi.stage[-1])] in ("place", "release")


def test_phi_is_the_shares_passed_plus_the_progress_within() -> None:
    value = BASE.evaluate(concat(fine(successes())))
    passed = np.array([BASE.shares[:k].sum() for k in value.stage])
    np.testing.assert_allclose(value.phi, passed + BASE.shares[value.stage] * value.tau)
    assert set(range(6)) <= set(np.unique(value.stage))


def test_it_is_a_function_of_the_state_alone() -> None:
    states = concat(fine(successes()))
    order = np.random.default_rng(0).permutation(states.batch)
    value = BASE.evaluate(states)
    np.testing.assert_array_equal(BASE.evaluate(states[order]).phi, value.phi[order])
    again = BASE.evaluate(SimFrame.unpack(states.pack().astype(np.float32)))
    assert np.mean(np.abs(again.phi - value.phi) > 1e-3) < 0.01


def test_its_stages_are_the_familys() -> None:
    assert BASE.stages == family("pick-place").stages
    with pytest.raises(UnknownName, match="pick-place"):
        base_program("pick-plce")
