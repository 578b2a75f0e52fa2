"""Event timelines: what is followed in each task, and when it changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coda.sim.engine import BatchSim
from coda.sim.errors import SceneError
from coda.sim.events import timeline, watched
from coda.sim.families import FAMILIES
from coda.sim.frame import SimFrame
from coda.sim.paths import apply_edits
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import evaluate
from coda.sim.program import Edit, Fixed
from coda.sim.rollout import EpisodeData, run_episodes
from coda.sim.scene import Scene

TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]
FOLLOWED = {
    ("pick-place", "place"): {
        "lifted(target)", "above(target, receptacle)", "on(target, receptacle)",
    },
    ("articulated", "open-drawer"): {"grasped(handle)", "joint_at(handle; 0.15)"},
    ("articulated", "close-lid"): {"grasped(handle)", "joint_at(handle; 0.06)"},
    ("put-inside", "bin"): {"grasped(target)", "inside(target, receptacle)"},
    ("put-inside", "closed-drawer"): {
        "grasped(handle)", "joint_at(handle)", "grasped(target)", "inside(target, receptacle)",
    },
    ("stack-insert", "stack-three"): {
        "grasped(receptacle)", "on(receptacle, support)", "on(target, receptacle)",
    },
    ("stack-insert", "peg-in-hole"): {"inserted(target, receptacle)", "upright(target)"},
    ("stack-insert", "nut-on-peg"): {"inserted(target, receptacle)", "released(target)"},
}  # fmt: skip


def seed(family: str, task: str) -> Scene:
    return FAMILIES[family].tasks[task].seed


def solved(scene: Scene) -> EpisodeData:
    episode = run_episodes(BatchSim([scene]), ScriptedPlanner(), keep_fine=True)[0]
    assert episode.success
    return episode


@pytest.mark.parametrize(("family", "task"), list(FOLLOWED))
def test_a_timeline_follows_what_the_task_is_about(family: str, task: str) -> None:
    scene = seed(family, task)
    terms = {str(term) for term in watched(BatchSim([scene]).reset(), scene.nu.terms)}
    assert terms >= FOLLOWED[family, task]
    assert ("handle" in " ".join(terms)) == ("handle" in " ".join(FOLLOWED[family, task]))


@pytest.mark.parametrize(("family", "task"), TASKS)
def test_terms_are_distinct_and_about_roles_that_are_there(family: str, task: str) -> None:
    scene = seed(family, task)
    frame = BatchSim([scene]).reset()
    terms = watched(frame, scene.nu.terms)
    assert len({(t.name, t.subject, t.reference) for t in terms}) == len(terms)
    assert set(scene.nu.terms) <= set(terms)
    for term in terms:
        evaluate(term, frame)


def test_grasps_of_distractors_are_followed() -> None:
    edit = Edit(path="tau.distractors", sampler=Fixed(value=2))
    scene = apply_edits(seed("pick-place", "place"), [edit], np.random.default_rng(0))
    names = [str(term) for term in watched(BatchSim([scene]).reset(), scene.nu.terms)]
    assert names[-2:] == ["grasped(distractor-1)", "grasped(distractor-2)"]


def test_without_a_goal_the_target_goes_on_the_receptacle() -> None:
    frame = BatchSim([seed("pick-place", "place")]).reset()
    assert "on(target, receptacle)" in [str(term) for term in watched(frame)]


@pytest.mark.parametrize(
    ("family", "task", "order"),
    [
        ("put-inside", "closed-drawer",
         ["grasped(handle)", "joint_at(handle)", "grasped(target)", "lifted(target)",
          "inside(target, receptacle)"]),
        ("articulated", "open-door",
         ["near(handle; 0.03)", "grasped(handle)", "joint_at(handle; 0.15)"]),
        ("stack-insert", "stack-three",
         ["grasped(receptacle)", "on(receptacle, support)", "grasped(target)",
          "on(target, receptacle)"]),
    ],
)  # fmt: skip
def test_the_events_of_a_solved_task_come_in_its_order(
    family: str, task: str, order: list[str]
) -> None:
    events = timeline(solved(seed(family, task)))
    first = {e.term: e.step for e in reversed(events) if e.became}
    steps = [first[name] for name in order]
    assert steps == sorted(steps)
    assert steps[0] > 0
    assert [e.step for e in events] == sorted(e.step for e in events)


def test_events_are_the_changes_of_truth() -> None:
    episode = solved(seed("pick-place", "place"))
    assert episode.fine is not None
    frames = SimFrame.unpack(np.concatenate((episode.frames[:1], episode.fine)))
    scene = episode.scene
    for term in watched(frames, [t for t in scene.nu.terms if t.name != "settled"]):
        truth, margin = evaluate(term, frames)
        now = False
        for event in (e for e in timeline(episode) if e.term == str(term)):
            assert event.became != now
            now = event.became
            assert truth[event.step] == now
            assert event.step == 0 or truth[event.step - 1] != now
            assert event.margin == margin[event.step]
        assert now == truth[-1]


def test_references_and_missing_states() -> None:
    episode = solved(seed("pick-place", "place"))
    lost = next(e for e in timeline(episode) if not e.became)
    assert lost.reference("ep1") == f"ep1:lost {lost.term}@{lost.step}"
    with pytest.raises(SceneError, match="run it with keep_fine=True"):
        timeline(replace(episode, fine=None))
