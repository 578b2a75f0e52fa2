"""Verifiers: right on both sides of every boundary, and never wrong on perturbed states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from coda.sim.engine import ACTION_DIM, CONTROL_HZ, BatchSim
from coda.sim.families import FAMILIES
from coda.sim.frame import Array, SimFrame
from coda.sim.gate_goal import goal_sim, reach_goal
from coda.sim.mjcf import compile_scene
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import DEFAULT_LIMITS, evaluate, holds
from coda.sim.roles import ROLES
from coda.sim.rollout import run_episodes
from coda.sim.scene import Scene
from coda.sim.terms import PredicateTerm
from tests.verifier_states import Followed, follow, perturbed

TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]
TASK_IDS = [f"{name}/{task}" for name, task in TASKS]
EPS = 1e-4
"""How far inside or outside a boundary a state lies, in the term's unit."""


def seed(family: str, task: str) -> Scene:
    return FAMILIES[family].tasks[task].seed


def idle(batch: int, steps: int = 1) -> Array:
    actions = np.zeros((batch, steps, ACTION_DIM))
    actions[:, :, 6] = -1.0
    return actions


@pytest.fixture(scope="module")
def goals() -> Mapping[tuple[str, str], tuple[BatchSim, SimFrame]]:
    """Every task's seed scene with its goal reached and settled."""
    found = {}
    for family, task in TASKS:
        scene = seed(family, task)
        sim = goal_sim([scene], [compile_scene(scene)])
        reach_goal(sim)
        for _ in range(12):
            sim.step_chunk(idle(1))
        found[family, task] = (sim, sim.frame())
    return found


# each term at its boundary


def moved(frame: SimFrame, term: PredicateTerm, shift: Array) -> SimFrame:
    """The subject somewhere else."""
    pos = frame.pos.copy()
    pos[:, ROLES.index(term.subject)] += shift
    return replace(frame, pos=pos)


def limit_of(term: PredicateTerm) -> float:
    return DEFAULT_LIMITS[term.name] if term.limit is None else term.limit


def places(frame: SimFrame, term: PredicateTerm) -> tuple[Array, Array, Array, float]:
    """Positions of subject and reference, the reference's rotation, the subject's lower half.

    What is inserted is measured along its own axis: a nut's long handle may hang a little.
    """
    assert term.reference is not None
    i, j = ROLES.index(term.subject), ROLES.index(term.reference)
    axes = slice(2, 3) if term.name == "inserted" else slice(0, 3)
    down = float(np.abs(frame.rot[0, i, 2, axes]) @ frame.half_size[0, i, axes])
    return frame.pos[0, i], frame.pos[0, j], frame.rot[0, j], down


def beside_rim(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """The centre `inside` metres within the rim of a plate or a block."""
    own, other, _, _ = places(frame, term)
    rim = float(frame.seat_half[0, ROLES.index(term.reference or "receptacle")].min())
    return moved(frame, term, np.array([other[0] + rim - inside - own[0], other[1] - own[1], 0.0]))


def over_seat(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """The underside `inside` metres closer to the seat than the limit allows."""
    own, other, _, down = places(frame, term)
    seat = float(frame.seat[0, ROLES.index(term.reference or "receptacle")])
    height = other[2] + seat + down + limit_of(term) - inside
    return moved(frame, term, np.array([0.0, 0.0, height - own[2]]))


def under_seat(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """The same from below."""
    own, other, _, down = places(frame, term)
    seat = float(frame.seat[0, ROLES.index(term.reference or "receptacle")])
    height = other[2] + seat + down - limit_of(term) + inside
    return moved(frame, term, np.array([0.0, 0.0, height - own[2]]))


def beside_wall(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """The centre `inside` metres within the seat, along one of its sides."""
    own, other, rot, _ = places(frame, term)
    half = frame.seat_half[0, ROLES.index(term.reference or "receptacle")]
    target = other + rot @ np.array([0.0, half[1] - inside, 0.0])
    return moved(frame, term, np.array([*(target - own)[:2], 0.0]))


def below_rim(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """The underside `inside` metres deeper than the limit asks for."""
    own, other, _, down = places(frame, term)
    rim = other[2] + float(frame.mouth[0, ROLES.index(term.reference or "receptacle")])
    return moved(frame, term, np.array([0.0, 0.0, rim - limit_of(term) - inside + down - own[2]]))


def at_opening(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """The joint `inside` of its travel closer to the goal than the limit asks for."""
    off = limit_of(term) - inside
    share = frame.joint_goal + np.where(frame.joint_goal > 0.5, -off, off)
    return replace(frame, joint_pos=share * frame.joint_span)


def at_speed(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """Slower than the limit by `inside` metres a second."""
    linvel, angvel = frame.linvel.copy(), frame.angvel.copy()
    i = ROLES.index(term.subject)
    linvel[:, i] = (0.0, limit_of(term) - inside, 0.0)
    angvel[:, i] = 0.0
    return replace(frame, linvel=linvel, angvel=angvel)


def fingers_near(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """Around the subject without touching it, wider open than needed by `inside` metres."""
    i = ROLES.index(term.subject)
    pos = frame.pos[:, i] + (frame.rot[:, i] @ frame.grip[:, i, :, None])[:, :, 0]
    width = 2.0 * frame.grip_half[:, i, :2].min(axis=1) + 0.004 + 2.0 * inside
    return replace(frame, ee_pos=pos, gripper_width_m=width)


def finger_touch(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """One finger at the subject, touching it where `inside` is negative."""
    touch = frame.touch_left.copy()
    touch[:, ROLES.index(term.subject)] = float(inside < 0)
    return replace(frame, touch_left=touch)


def contact_lost(frame: SimFrame, term: PredicateTerm, inside: float) -> SimFrame:
    """In place, but not touching where `inside` is negative."""
    i, j = ROLES.index(term.subject), ROLES.index(term.reference or "receptacle")
    touch = frame.touch.copy()
    touch[:, i, j] = touch[:, j, i] = float(inside > 0)
    return replace(frame, touch=touch)


Boundary = Callable[[SimFrame, PredicateTerm, float], SimFrame]
BOUNDARIES: Mapping[str, tuple[Boundary, ...]] = {
    "on": (beside_rim, over_seat, under_seat, contact_lost),
    "inside": (beside_wall, below_rim),
    "inserted": (beside_wall, below_rim),
    "joint_at": (at_opening,),
    "released": (fingers_near, finger_touch),
    "settled": (at_speed,),
}


@pytest.mark.parametrize(("family", "task"), TASKS, ids=TASK_IDS)
def test_just_inside_is_success_and_just_outside_is_not(
    family: str, task: str, goals: Mapping[tuple[str, str], tuple[BatchSim, SimFrame]]
) -> None:
    terms, frame = seed(family, task).nu.terms, goals[family, task][1]
    assert holds(terms, frame).all()
    for term in terms:
        for boundary in BOUNDARIES[term.name]:
            inner, outer = (boundary(frame, term, side) for side in (EPS, -EPS))
            assert evaluate(term, inner)[0].all(), (str(term), boundary.__name__)
            assert not evaluate(term, outer)[0].any(), (str(term), boundary.__name__)
            assert not holds(terms, outer).any(), (str(term), boundary.__name__)


# time and hands


@pytest.mark.parametrize(("family", "task"), TASKS, ids=TASK_IDS)
def test_success_has_to_hold(
    family: str, task: str, goals: Mapping[tuple[str, str], tuple[BatchSim, SimFrame]]
) -> None:
    done = goals[family, task][0]
    scene = done.scenes[0]
    needed = round(scene.nu.hold_s * CONTROL_HZ)
    assert needed > 1
    sim = BatchSim([scene], models=done.models)
    start, goal = sim.reset(), done.state(0)
    del start
    before = sim.state(0)
    sim.set_state(0, goal)
    won = [bool(sim.step_chunk(idle(1)).success[0]) for _ in range(needed)]
    assert won == [False] * (needed - 1) + [True]
    sim.reset()
    sim.set_state(0, goal)
    for _ in range(needed - 1):
        assert not sim.step_chunk(idle(1)).success[0]
    sim.set_state(0, before)  # it does not hold for a moment: the time starts again
    assert not sim.step_chunk(idle(1)).success[0]
    sim.set_state(0, goal)
    won = [bool(sim.step_chunk(idle(1)).success[0]) for _ in range(needed)]
    assert won == [False] * (needed - 1) + [True]


@pytest.mark.parametrize(("family", "task"), TASKS, ids=TASK_IDS)
def test_nothing_counts_while_it_is_held(family: str, task: str) -> None:
    scene = seed(family, task)
    episode = run_episodes(BatchSim([scene]), ScriptedPlanner(), keep_fine=True)[0]
    assert episode.success
    assert episode.fine is not None
    frames = SimFrame.unpack(episode.fine)
    role = "handle" if scene.tau.goal.reference is None else "target"
    i = ROLES.index(role)
    held = (frames.touch_left[:, i] > 0) | (frames.touch_right[:, i] > 0)
    assert held.any()
    assert not holds(scene.nu.terms, frames[held]).any()


# perturbed states


def check_rates(found: Followed) -> None:
    """No instant and no success is judged wrongly, and both outcomes were well represented."""
    wrong = np.argwhere(found.said != found.true)
    places = [
        f"step {t}: {found.kinds[k]} {found.scenes[k].tau.task} "
        f"{'false success' if found.said[t, k] else 'false failure'}"
        for t, k in wrong.tolist()
    ]
    assert places == []
    held = np.zeros(found.true.shape[1], dtype=np.int64)
    needed = np.array([round(s.nu.hold_s * CONTROL_HZ) for s in found.scenes])
    for now, won in zip(found.true, found.won, strict=True):
        held = np.where(now, held + 1, 0)
        assert np.array_equal(won, held >= needed)
    share = found.won[-1].mean()
    assert 0.15 < share < 0.85
    tasks = {scene.tau.task for k, scene in enumerate(found.scenes) if found.won[-1, k]}
    assert tasks == {scene.tau.task for scene in found.scenes}


@pytest.mark.parametrize("family", list(FAMILIES))
def test_no_perturbed_state_is_judged_wrongly(family: str) -> None:
    check_rates(follow(perturbed(family, 64, models=4, seed=1), steps=8))


@pytest.mark.slow
@pytest.mark.parametrize("family", list(FAMILIES))
def test_none_of_five_hundred_perturbed_states_is_judged_wrongly(family: str) -> None:
    check_rates(follow(perturbed(family, 504, models=42)))
