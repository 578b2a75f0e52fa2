"""Films of rollouts: pictures with the event timeline under them, as animated WebP or mp4."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image as PilImage

from coda.sim.engine import CONTROL_HZ, BatchSim
from coda.sim.errors import SimulationError
from coda.sim.frame import Array
from coda.sim.render import Camera, Image, SceneRenderer, replayed
from coda.sim.scene import Scene
from coda.sim.timeline_strip import Strip, make_timeline

FILM_SUFFIXES = (".webp", ".mp4")
HOLD_S = 1.0
"""How long a film rests on its last picture [s]."""

StageNames = Callable[[Array], Sequence[str]]
"""Maps packed frames (S + 1, F) to the name of each one's stage."""


@dataclass(frozen=True, kw_only=True)
class Film:
    """Pictures of a rollout and when they were taken."""

    pictures: tuple[Image, ...]
    steps: tuple[int, ...]
    """Control step of each picture."""
    every: int
    """Control steps from one picture to the next."""

    @property
    def fps(self) -> float:
        """Pictures a second of simulated time."""
        return CONTROL_HZ / self.every

    def write(self, path: Path) -> Path:
        """Write ``.webp`` or ``.mp4``, at real time."""
        return write_film(self.pictures, path, fps=self.fps)


def film_rollout(
    scene: Scene,
    actions: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    outcome: str,
    *,
    every: int = 2,
    cameras: Sequence[Camera] = ("agentview",),
    size: tuple[int, int] = (240, 320),
    stages: StageNames | None = None,
    renderer: SceneRenderer | None = None,
) -> Film:
    """Simulate a stored rollout again and film it, with its event timeline under the picture.

    Args:
        scene: Its scene.
        actions: Chunks (T, H, 7).
        lengths: Control steps executed of each chunk (T,).
        outcome: How it ended: ``success``, ``timeout`` or ``crashed``.
        every: Film every n-th control step, and the last.
        cameras: Shown side by side.
        size: Height and width of one camera's picture [pixels].
        stages: Names the stage of every state, for a band over the timeline.
        renderer: Used instead of a new one, and left pointing at this scene; its size counts.
    """
    sim = BatchSim([scene])
    owned = SceneRenderer(scene, size=size) if renderer is None else None
    camera_man = owned or renderer
    assert camera_man is not None
    try:
        camera_man.point_at(scene)
        total = int(lengths.sum())
        frames: list[Array] = []
        shots: list[tuple[int, Image]] = []
        for step in replayed(sim, actions, lengths):
            frames.append(sim.frame().pack()[0])
            if step % every == 0 or step == total:
                views = [camera_man.draw(sim.qpos(0), camera=camera) for camera in cameras]
                shots.append((step, np.concatenate(views, axis=1)))
    finally:
        if owned is not None:
            owned.close()
        sim.close()
    packed = np.array(frames)
    names = tuple(stages(packed)) if stages is not None else ()
    timeline = make_timeline(packed, outcome, goal=scene.nu.terms, stages=names)
    strip = Strip(timeline, shots[0][1].shape[1])
    pictures = tuple(np.concatenate((view, strip.at(step)), axis=0) for step, view in shots)
    return Film(pictures=pictures, steps=tuple(step for step, _ in shots), every=every)


def write_film(pictures: Sequence[Image], path: Path, *, fps: float = 10.0) -> Path:
    """Write pictures (H, W, 3) in the format of the path's suffix. Raises `SimulationError`."""
    suffix = path.suffix.lower()
    if suffix == ".webp":
        return write_webp(pictures, path, fps=fps)
    if suffix == ".mp4":
        return write_mp4(pictures, path, fps=fps)
    raise SimulationError(
        f"a film cannot be written as {path.name!r}; allowed: {', '.join(FILM_SUFFIXES)}."
    )


def write_webp(pictures: Sequence[Image], path: Path, *, fps: float = 10.0) -> Path:
    """Write pictures (H, W, 3) as an animated WebP. Raises `SimulationError` for no pictures."""
    _need(pictures, path)
    frames = [PilImage.fromarray(picture) for picture in pictures]
    each = round(1000 / fps)
    frames[0].save(
        path,
        format="WEBP",
        save_all=True,
        append_images=frames[1:],
        duration=[each] * (len(frames) - 1) + [each + round(1000 * HOLD_S)],
        loop=0,
        quality=70,
        method=3,
    )
    return path


def write_mp4(pictures: Sequence[Image], path: Path, *, fps: float = 10.0) -> Path:
    """Write pictures (H, W, 3) as H.264 in mp4. Raises `SimulationError` without PyAV."""
    _need(pictures, path)
    try:
        av: Any = importlib.import_module("av")
    except ImportError:
        raise SimulationError(
            f"writing {path.name!r} needs PyAV; pip install av, or write a .webp."
        ) from None
    height, width = (side - side % 2 for side in pictures[0].shape[:2])
    rate = Fraction(fps).limit_denominator(1000)
    last = [pictures[-1]] * round(fps * HOLD_S)
    with av.open(str(path), mode="w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        for picture in (*pictures, *last):
            even = np.ascontiguousarray(picture[:height, :width])
            for packet in stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def _need(pictures: Sequence[Image], path: Path) -> None:
    if not pictures:
        raise SimulationError(f"no pictures to write to {path}.")
