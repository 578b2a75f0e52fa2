"""Evidence of a group of failures: what happened in each rollout, which factors go with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coda.policy.potential import Potential
from coda.sim.errors import CodaError, UnknownName
from coda.sim.events import Event, timeline
from coda.sim.factors import axis_of
from coda.sim.frame import SimFrame
from coda.sim.predicates import evaluate, holds
from coda.sim.program import GenerationProgram
from coda.sim.roles import AXES, Axis
from coda.sim.rollout import EpisodeData, Outcome
from coda.sim.scene import Scene
from coda.sim.terms import PredicateTerm
from coda.tools.contacts import contacts
from coda.tools.contrasts import Contrast, compare, deviations
from coda.tools.evidence_terms import goal_terms, margin_terms
from coda.tools.factor_table import TASK_PATH

SHOWN_FAILURES = 6
SHOWN_SUCCESSES = 2
SHOWN_EVENTS = 14
"""Limits of what a prompt holds; tools give the rest."""


class EvidenceError(CodaError):
    """Evidence cannot be built from, or found in, these episodes."""


@dataclass(frozen=True, kw_only=True)
class EventRef:
    """One change of a predicate, and the reference that a diagnosis cites."""

    ref: str
    """``<episode>:<predicate>@<step>``, with ``lost`` where it became false."""
    step: int
    predicate: str
    became: bool
    margin: float


@dataclass(frozen=True, kw_only=True)
class EpisodeSummary:
    """One rollout, as the critic sees it. Lengths [m], angles [rad], steps at 20 Hz."""

    episode_id: str
    success: bool
    steps: int
    stage: str
    """Stage at the highest potential: the one that was not completed."""
    phi_max: float
    phi_end: float
    deltas: Mapping[str, float]
    """Factor differences from the seed scene."""
    events: tuple[EventRef, ...]
    margins: Mapping[str, float]
    """Margins where the potential was highest; positive: the predicate held."""
    contacts: Mapping[str, Any]
    """Touches, pushes and the grasp of the role that the stage is about."""
    at_goal: bool = False
    """Whether the goal relation held where the potential was highest."""

    def facts(self, *, events: int = SHOWN_EVENTS) -> dict[str, Any]:
        """Compact JSON; only the last `events` events."""
        return {
            "episode": self.episode_id,
            "success": self.success,
            "steps": self.steps,
            "stage": self.stage,
            "phi_max": round(self.phi_max, 3),
            "phi_end": round(self.phi_end, 3),
            "deltas": dict(self.deltas),
            "events": [event.ref for event in self.events[-events:]],
            "margins": dict(self.margins),
            "at_goal": self.at_goal,
            "contacts": dict(self.contacts),
        }


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known about one program's rollouts under one policy."""

    program: GenerationProgram
    seed_scene: Scene
    stages: tuple[str, ...]
    """Stage names of the family's base potential."""
    measures: Mapping[str, str]
    """What each stage's progress measures, e.g. ``near(target; 0)``."""
    episodes: tuple[EpisodeSummary, ...]
    crashed: int
    """Simulations that crashed: left out, they say nothing about the policy."""
    contrasts: tuple[Contrast, ...]
    keyframes: tuple[bytes, ...] = ()
    """PNG images for a model that sees, in the order of `keyframe_refs`."""
    keyframe_refs: tuple[str, ...] = ()

    @property
    def edited_axes(self) -> tuple[Axis, ...]:
        """Axes that the program edits; which task it is about is none."""
        edited = {axis_of(e.path) for e in self.program.edits if e.path != TASK_PATH}
        return tuple(axis for axis in AXES if axis in edited)

    @property
    def failures(self) -> tuple[EpisodeSummary, ...]:
        """Rollouts that failed."""
        return tuple(e for e in self.episodes if not e.success)

    @property
    def successes(self) -> tuple[EpisodeSummary, ...]:
        """Rollouts that succeeded."""
        return tuple(e for e in self.episodes if e.success)

    def references(self) -> frozenset[str]:
        """Everything that a diagnosis may cite: episode ids and event references."""
        events = (event.ref for episode in self.episodes for event in episode.events)
        return frozenset((*(e.episode_id for e in self.episodes), *events))

    def episode(self, episode_id: str) -> EpisodeSummary:
        """One rollout. Raises `UnknownName`."""
        for episode in self.episodes:
            if episode.episode_id == episode_id:
                return episode
        raise UnknownName("episode", episode_id, [e.episode_id for e in self.episodes])

    def failed_at(self) -> dict[str, int]:
        """Failures counted by the stage they did not complete, in stage order."""
        counts = Counter(e.stage for e in self.failures)
        return {name: counts[name] for name in self.stages if counts[name]}

    def facts(self) -> dict[str, Any]:
        """Compact JSON for a prompt: the group, the contrasts, and a few rollouts in full."""
        n, ok = len(self.episodes), len(self.successes)
        shown = (*_spread(self.failures, SHOWN_FAILURES), *self.successes[:SHOWN_SUCCESSES])
        return {
            "program": self.program.name,
            "family": self.seed_scene.tau.family,
            "family_task": self.seed_scene.tau.task,
            "goal": [str(term) for term in goal_terms(self.seed_scene)],
            "edited_axes": list(self.edited_axes),
            "stages": list(self.stages),
            "measures": dict(self.measures),
            "group": {
                "rollouts": n,
                "successes": ok,
                "crashed": self.crashed,
                "failed_at": self.failed_at(),
                "phi_max_mean": round(float(np.mean([e.phi_max for e in self.episodes])), 3),
            },
            "contrasts": [contrast.facts() for contrast in self.contrasts],
            "episodes": [episode.facts() for episode in shown],
            "images": list(self.keyframe_refs),
        }


def build_evidence(
    program: GenerationProgram,
    episodes: Sequence[EpisodeData],
    base: Potential,
    seed_scene: Scene,
    *,
    episode_ids: Sequence[str],
    keyframes: Mapping[str, bytes] | None = None,
) -> Evidence:
    """Summarise rollouts of one program.

    Args:
        program: The generation program that the scenes come from.
        episodes: Rollouts of one policy on them, with their control steps kept (`keep_fine`).
        base: The family's base potential; its stage names are the critic's vocabulary.
        seed_scene: The task's seed scene; factor differences are measured from it.
        episode_ids: Ids in the run's journal, one for each rollout.
        keyframes: PNG images by reference, e.g. ``{"ep12@34": …}``, for a model that sees.

    Raises:
        EvidenceError: Ids do not fit, or every simulation crashed.
    """
    if len(episode_ids) != len(episodes) or len(set(episode_ids)) != len(episodes):
        raise EvidenceError(
            f"{len(episodes)} episodes need as many different ids; got {len(episode_ids)} "
            f"({len(set(episode_ids))} different)."
        )
    sound = [
        (name, episode)
        for name, episode in zip(episode_ids, episodes, strict=True)
        if episode.outcome is not Outcome.CRASHED
    ]
    if not sound:
        raise EvidenceError(
            f"program {program.name!r}: all {len(episodes)} simulations crashed, so there is "
            "nothing to diagnose; inspect its scenes with the validity gate."
        )
    summaries = tuple(_summarise(name, episode, base, seed_scene) for name, episode in sound)
    images = dict(keyframes or {})
    return Evidence(
        program=program,
        seed_scene=seed_scene,
        stages=base.stages,
        measures={stage.name: str(stage.progress.term) for stage in base.program.stages},
        episodes=summaries,
        crashed=len(episodes) - len(sound),
        contrasts=compare(
            [episode.scene for _, episode in sound],
            np.array([s.success for s in summaries], dtype=np.bool_),
            np.array([s.phi_max for s in summaries], dtype=np.float64),
            seed_scene,
        ),
        keyframes=tuple(images.values()),
        keyframe_refs=tuple(images),
    )


def _summarise(name: str, episode: EpisodeData, base: Potential, seed: Scene) -> EpisodeSummary:
    frames = SimFrame.unpack(episode.frames)
    value = base.evaluate(frames)
    phi = np.asarray(value.phi, dtype=np.float64)
    peak = int(phi.argmax())
    best = frames[peak : peak + 1]
    stage = base.program.stages[int(np.asarray(value.stage)[peak])]
    told = contacts(
        frames if episode.fine is None else SimFrame.unpack(episode.fine),
        stage.progress.term.subject,
    )
    goal = goal_terms(episode.scene)
    return EpisodeSummary(
        episode_id=name,
        success=episode.outcome is Outcome.SUCCESS,
        steps=int(episode.steps),
        stage=stage.name,
        phi_max=float(phi[peak]),
        phi_end=float(phi[-1]),
        deltas=deviations(episode.scene, seed),
        events=tuple(_event(name, event) for event in timeline(episode)),
        margins=_margins(margin_terms(best, told["about"], stage, goal), best),
        contacts=told,
        at_goal=bool(holds(goal, best)[0]),
    )


def _event(name: str, event: Event) -> EventRef:
    return EventRef(
        ref=event.reference(name),
        step=event.step,
        predicate=event.term,
        became=event.became,
        margin=event.margin,
    )


def _margins(terms: Sequence[PredicateTerm], frame: SimFrame) -> dict[str, float]:
    return {str(term): round(float(evaluate(term, frame)[1][0]), 4) for term in terms}


def _spread(episodes: Sequence[EpisodeSummary], limit: int) -> tuple[EpisodeSummary, ...]:
    """Up to `limit` rollouts, taking turns between the stages they failed at."""
    groups: dict[str, list[EpisodeSummary]] = {}
    for episode in episodes:
        groups.setdefault(episode.stage, []).append(episode)
    turns = (group[i : i + 1] for i in range(len(episodes)) for group in groups.values())
    return tuple(episode for turn in turns for episode in turn)[:limit]
