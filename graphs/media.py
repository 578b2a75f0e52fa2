"""Pictures and films of a run, for the report: stored rollouts are simulated again and filmed.

Needs an off-screen OpenGL; without one the report says so in place of the pictures. What was
rendered once is kept in ``videos/`` and found again.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from PIL import Image as PilImage

from coda.graphs.artifacts import load_built
from coda.graphs.facts import RunFacts
from coda.graphs.runfolder import RunError
from coda.graphs.stage_names import stage_names
from coda.memory.rows import EpisodeRow
from coda.sim.errors import SimulationError
from coda.sim.film import film_rollout
from coda.sim.render import STILL, ensure_gl, render_scene
from coda.sim.rollout import EpisodeData
from coda.sim.scene import Scene
from coda.tools.episode_store import EpisodeStoreError, load_trials

FILM_EVERY = 3
"""Control steps a frame; films run at real time."""
FILM_SIZE = (192, 256)
"""Height and width [pixels]."""
SCENE_SIZE = (288, 384)
SCENE_CROP = (70, 30, 354, 274)
"""Left, top, right, bottom of what is kept of a scene's picture: the table."""
SCENES_PER_PROGRAM = 3
MAX_PROGRAMS = 8
"""Programs of the last rounds whose scenes are shown."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A WebP picture or film with its words."""

    data: bytes
    caption: str
    success: bool | None = None
    """Outcome of a film; None for a scene."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Pictures that belong together, e.g. the scenes of a program."""

    title: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, kw_only=True)
class Media:
    """All pictures of a report, and why there are none where there are none."""

    scenes: tuple[Group, ...] = ()
    films: tuple[Group, ...] = ()
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A film to be made."""

    episode: EpisodeRow
    policy: str
    """Whose rollout it is, e.g. ``SFT``."""


@dataclass(frozen=True, kw_only=True)
class Take:
    """Shots that are shown side by side."""

    title: str
    shots: tuple[Shot, ...]


def make_media(facts: RunFacts) -> Media:
    """Render what the report shows of a run, or say why it cannot be rendered."""
    try:
        ensure_gl()
        return Media(scenes=_scene_groups(facts), films=_film_groups(facts))
    except (SimulationError, EpisodeStoreError, RunError) as error:
        return Media(problem=str(error))


def _scene_groups(facts: RunFacts) -> tuple[Group, ...]:
    """A few accepted scenes of each program, the latest programs first."""
    built = [
        item
        for path in sorted((facts.folder.path / "programs").glob("r*.json"), reverse=True)
        for item in load_built(path)
        if item.scenes
    ][:MAX_PROGRAMS]
    shown_scenes = [scene for item in built for scene in item.scenes[:SCENES_PER_PROGRAM]]
    jobs = {scene.digest(): scene for scene in shown_scenes}
    pictures = _parallel(facts, _scene_picture(facts), list(jobs.values()))
    drawn = dict(zip(jobs, pictures, strict=True))
    groups = []
    for item in built:
        shown = tuple(
            Picture(data=drawn[scene.digest()], caption=scene.tau.instruction)
            for scene in item.scenes[:SCENES_PER_PROGRAM]
        )
        title = f"{item.program_id} {item.program.name} ({len(item.scenes)} accepted)"
        groups.append(Group(title=title, pictures=shown))
    return tuple(groups)


def _scene_picture(facts: RunFacts) -> Callable[[Scene], bytes]:
    def draw(scene: Scene) -> bytes:
        path = facts.folder.videos / f"scene-{scene.digest()}.webp"
        if not path.is_file():
            stream = io.BytesIO()
            picture = PilImage.fromarray(render_scene(scene, size=SCENE_SIZE, quality=STILL))
            picture.crop(SCENE_CROP).save(stream, format="WEBP", quality=80)
            _write(path, stream.getvalue())
        return path.read_bytes()

    return draw


def _film_groups(facts: RunFacts) -> tuple[Group, ...]:
    stored = _stored(facts)
    takes = choose_takes(facts.episodes, frozenset(stored))
    jobs = list(
        {s.episode.episode_id: stored[s.episode.episode_id] for t in takes for s in t.shots}.items()
    )
    films = dict(zip((name for name, _ in jobs), _parallel(facts, _film(facts), jobs), strict=True))
    return tuple(
        Group(
            title=take.title,
            pictures=tuple(
                Picture(
                    data=films[shot.episode.episode_id],
                    caption=_caption(shot),
                    success=shot.episode.success,
                )
                for shot in take.shots
            ),
        )
        for take in takes
    )


def _caption(shot: Shot) -> str:
    return f"{shot.policy}, {shot.episode.steps} steps ({shot.episode.episode_id})"


def _film(facts: RunFacts) -> Callable[[tuple[str, EpisodeData]], bytes]:
    def shoot(job: tuple[str, EpisodeData]) -> bytes:
        name, episode = job
        path = facts.folder.videos / f"{name.replace(':', '-')}.webp"
        if not path.is_file():
            scene = episode.scene
            film = film_rollout(
                scene,
                episode.actions,
                episode.lengths,
                episode.outcome.value,
                every=FILM_EVERY,
                size=FILM_SIZE,
                stages=lambda frames: stage_names(scene, frames),
            )
            part = path.with_name(f".{path.name}")
            path.parent.mkdir(exist_ok=True)
            film.write(part)
            os.replace(part, path)
        return path.read_bytes()

    return shoot


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{path.name}")
    part.write_bytes(data)
    os.replace(part, path)


def _parallel(facts: RunFacts, job: Callable[[T], bytes], items: Sequence[T]) -> list[bytes]:
    """Render on the run's threads, each with its own OpenGL context."""
    with ThreadPoolExecutor(facts.config.threads) as pool:
        return list(pool.map(job, items))


def _stored(facts: RunFacts) -> Mapping[str, EpisodeData]:
    """Kept rollouts that may be filmed: the first and the last OOD evaluation, or the latest."""
    measured = sorted((facts.folder.path / "episodes").glob("r*-ood.npz"))
    latest = sorted((facts.folder.path / "rollouts").glob("r*.npz"))[-1:]
    paths = [measured[0], measured[-1]] if len(measured) > 1 else latest
    return {t.episode_id: t.episode for path in paths for t in load_trials(path)}


def choose_takes(episodes: Sequence[EpisodeRow], stored: frozenset[str]) -> tuple[Take, ...]:
    """Which rollouts to film: the same scene before and after, where it tells something.

    Failures of the seed policy that the final policy solves (one an axis, three at most), one
    scene that both solve, and one that the final policy still fails. Where evaluations were not
    kept, a success and a failure of the latest rollouts.
    """
    kept = [row for row in episodes if row.episode_id in stored and row.success is not None]
    evaluated = [row for row in kept if row.purpose == "evaluate-ood"]
    keys = list(dict.fromkeys(row.node_key for row in evaluated))
    if len(keys) < 2:
        return _latest(kept)
    first = {row.scene_digest: row for row in evaluated if row.node_key == keys[0]}
    last = {row.scene_digest: row for row in evaluated if row.node_key == keys[-1]}
    pairs = [(first[d], last[d]) for d in first if d in last]
    learnt = _one_per_axis([p for p in pairs if not p[0].success and p[1].success])[:3]
    kept_up = [p for p in pairs if p[0].success and p[1].success][:1]
    open_ = _one_per_axis([p for p in pairs if not p[1].success])[:1]
    takes = [(f"Learnt: {_axis(b)}", a, b) for a, b in learnt]
    takes += [("Solved before and after", a, b) for a, b in kept_up]
    takes += [(f"Still failing: {_axis(b)}", a, b) for a, b in open_]
    return tuple(
        Take(title=title, shots=(Shot(episode=a, policy="SFT"), Shot(episode=b, policy="Final")))
        for title, a, b in takes
    )


def _one_per_axis(
    pairs: Sequence[tuple[EpisodeRow, EpisodeRow]],
) -> list[tuple[EpisodeRow, EpisodeRow]]:
    return list({pair[1].axis: pair for pair in reversed(pairs)}.values())[::-1]


def _axis(row: EpisodeRow) -> str:
    return row.axis or "all"


def _latest(kept: Sequence[EpisodeRow]) -> tuple[Take, ...]:
    takes = []
    for title, wanted in (("A success", True), ("A failure", False)):
        found = [row for row in kept if row.success is wanted][-1:]
        shots = tuple(Shot(episode=row, policy=row.node_key) for row in found)
        if shots:
            takes.append(Take(title=title, shots=shots))
    return tuple(takes)
