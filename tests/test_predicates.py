"""Predicates: signs, boundaries, absent roles, and what the verifier does not accept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coda.sim.engine import BatchSim
from coda.sim.errors import SceneError
from coda.sim.families import family
from coda.sim.frame import FRAME_SIZE, SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import evaluate, grasp_yaw_error, holds
from coda.sim.roles import ROLES
from coda.sim.rollout import run_episodes
from coda.sim.terms import PredicateTerm

SEED = family("pick-place").seed


@pytest.fixture(scope="module")
def frames() -> SimFrame:
    """States of one successful rollout, one for every control step."""
    episode = run_episodes(BatchSim([SEED]), ScriptedPlanner(), keep_fine=True)[0]
    assert episode.success
    assert episode.fine is not None
    return SimFrame.unpack(episode.fine)


TERMS = [
    PredicateTerm(name="near"),
    PredicateTerm(name="aligned"),
    PredicateTerm(name="opened"),
    PredicateTerm(name="grasped"),
    PredicateTerm(name="lifted"),
    PredicateTerm(name="above", reference="receptacle"),
    PredicateTerm(name="on", reference="receptacle"),
    PredicateTerm(name="released"),
    PredicateTerm(name="settled"),
    PredicateTerm(name="upright"),
    PredicateTerm(name="contact"),
    PredicateTerm(name="contact", reference="receptacle"),
]


@pytest.mark.parametrize("term", TERMS, ids=str)
def test_a_term_is_true_exactly_where_its_margin_is_not_negative(
    term: PredicateTerm, frames: SimFrame
) -> None:
    truth, margin = evaluate(term, frames)
    assert np.array_equal(truth, margin >= 0)
    flipped, negative = evaluate(term.model_copy(update={"negate": True}), frames)
    assert np.array_equal(flipped, ~truth)
    assert np.array_equal(flipped, negative >= 0)


def test_every_stage_of_the_task_happens_in_a_successful_rollout(frames: SimFrame) -> None:
    for term in TERMS:
        assert evaluate(term, frames)[0].any(), term
    assert holds(SEED.nu.terms, frames[-1:]).all()


def test_an_absent_role_makes_a_term_false(frames: SimFrame) -> None:
    truth, margin = evaluate(PredicateTerm(name="near", subject="distractor-1"), frames)
    assert not truth.any()
    assert (margin == -1.0).all()


def test_held_over_the_receptacle_is_not_success(frames: SimFrame) -> None:
    held = evaluate(PredicateTerm(name="grasped"), frames)[0]
    assert held.any()
    assert not holds(SEED.nu.terms, frames[held]).any()


def test_closed_fingers_that_press_on_an_object_do_not_hold_it(frames: SimFrame) -> None:
    held = frames[np.flatnonzero(evaluate(PredicateTerm(name="grasped"), frames)[0])[:1]]
    closed = replace(held, gripper_width_m=np.array([0.004]))
    assert not evaluate(PredicateTerm(name="grasped"), closed)[0].any()


def test_yaw_error_respects_the_symmetry_of_the_grasp(frames: SimFrame) -> None:
    start = frames[:1]
    error = grasp_yaw_error(start, "target")
    half_turn = np.diag([-1.0, -1.0, 1.0])
    turned = replace(start, ee_rot=half_turn @ start.ee_rot)
    np.testing.assert_allclose(grasp_yaw_error(turned, "target"), error, atol=1e-9)
    assert abs(float(error[0])) < np.pi / 2


def test_frames_pack_and_unpack(frames: SimFrame) -> None:
    packed = frames.pack()
    assert packed.shape == (frames.batch, FRAME_SIZE)
    assert np.array_equal(SimFrame.unpack(packed).pack(), packed)


def test_a_term_without_its_reference_is_refused(frames: SimFrame) -> None:
    with pytest.raises(SceneError, match="needs a reference role"):
        evaluate(PredicateTerm(name="above"), frames)


OTHERS = {
    ("put-inside", "closed-drawer"): [
        PredicateTerm(name="inside", reference="receptacle"),
        PredicateTerm(name="joint_at", subject="handle"),
        PredicateTerm(name="near", subject="handle"),
        PredicateTerm(name="grasped", subject="handle"),
        PredicateTerm(name="released", subject="handle"),
    ],
    ("stack-insert", "peg-in-hole"): [PredicateTerm(name="inserted", reference="receptacle")],
    ("stack-insert", "nut-on-peg"): [PredicateTerm(name="inserted", reference="receptacle")],
    ("stack-insert", "stack-three"): [
        PredicateTerm(name="on", reference="receptacle"),
        PredicateTerm(name="on", subject="receptacle", reference="support"),
    ],
}


@pytest.mark.parametrize(("family_name", "task"), list(OTHERS))
def test_terms_of_other_tasks_come_true_and_agree_with_their_margins(
    family_name: str, task: str
) -> None:
    scene = family(family_name).tasks[task].seed
    episode = run_episodes(BatchSim([scene]), ScriptedPlanner(), keep_fine=True)[0]
    assert episode.fine is not None
    states = SimFrame.unpack(episode.fine)
    for term in OTHERS[family_name, task]:
        truth, margin = evaluate(term, states)
        assert np.array_equal(truth, margin >= 0)
        assert truth.any(), term
        assert not truth.all(), term
    assert holds(scene.nu.terms, states[-1:]).all()


def test_under_a_drawer_is_not_inside() -> None:
    scene = family("put-inside").tasks["drawer"].seed
    frame = BatchSim([scene]).reset()
    i, j = ROLES.index("target"), ROLES.index("receptacle")
    term = PredicateTerm(name="inside", reference="receptacle")
    pos = frame.pos.copy()
    pos[0, i] = pos[0, j] + (0.0, 0.0, float(frame.seat[0, j] + frame.half_size[0, i, 2]))
    assert evaluate(term, replace(frame, pos=pos))[0].all()
    pos[0, i, 2] = pos[0, j, 2] + float(frame.seat[0, j]) - 0.01
    assert not evaluate(term, replace(frame, pos=pos))[0].any()


def test_without_a_joint_nothing_is_open(frames: SimFrame) -> None:
    truth, margin = evaluate(PredicateTerm(name="joint_at", subject="target"), frames)
    assert not truth.any()
    assert (margin == -1.0).all()


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("absent", [None, False, True])
def test_an_absent_role_counts_as_a_term_says(
    negate: bool, absent: bool | None, frames: SimFrame
) -> None:
    term = PredicateTerm(name="near", subject="support", negate=negate, if_absent=absent)
    truth, margin = evaluate(term, frames)
    expected = negate if absent is None else absent
    assert (truth == expected).all()
    assert (margin == (1.0 if expected else -1.0)).all()
