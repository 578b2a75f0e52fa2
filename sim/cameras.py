"""Pictures of batches: what a policy with cameras sees of every scene that is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.engine import BatchSim
from coda.sim.frame import Array
from coda.sim.render import COARSE, Camera, SceneRenderer, Stage
from coda.sim.scene import Scene

Pictures = npt.NDArray[np.uint8]
"""(B, cameras, 3, h, w)."""

WORDS: dict[Camera, str] = {"agentview": "agent view", "wrist": "wrist"}


@dataclass(frozen=True, kw_only=True)
class View:
    """Which pictures a policy sees."""

    size: int = 64
    """Height and width [pixels]."""
    cameras: tuple[Camera, ...] = ("agentview", "wrist")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the pictures of one state: (cameras, 3, h, w)."""
        return len(self.cameras), 3, self.size, self.size

    @property
    def words(self) -> str:
        """For people, e.g. ``agent view + wrist, 64x64``."""
        return f"{' + '.join(WORDS[c] for c in self.cameras)}, {self.size}x{self.size}"


class Cameras:
    """Draws the scenes of a batch. Use as a context manager.

    One GL context; a scene is compiled for drawing when it is first looked at, and meshes that
    scenes share are uploaded once. The renderer is made when it is first needed.

    Args:
        scenes: N scenes.
        view: What is drawn of each.
    """

    def __init__(self, scenes: Sequence[Scene], view: View) -> None:
        self.view = view
        self._scenes = tuple(scenes)
        self._stages: dict[int, Stage] = {}
        self._renderer: SceneRenderer | None = None

    def __enter__(self) -> Cameras:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the renderer; nothing is kept."""
        if self._renderer is not None:
            self._renderer.close()
        self._renderer, self._stages = None, {}

    def draw(self, index: int, qpos: Array) -> Pictures:
        """Pictures (cameras, 3, h, w) of one scene with generalised positions `qpos` (nq,)."""
        renderer = self._show(index)
        views = [renderer.draw(qpos, camera=camera) for camera in self.view.cameras]
        return np.ascontiguousarray(np.stack(views).transpose(0, 3, 1, 2))

    def look(self, sim: BatchSim, rows: npt.NDArray[Any] | None = None) -> Pictures:
        """Pictures (B, cameras, 3, h, w) of a batch of these scenes; black where not in `rows`.

        Args:
            sim: A batch with the same scenes in the same order.
            rows: Indices or a mask of the scenes that are drawn; all of them where None.
        """
        out = np.zeros((sim.batch, *self.view.shape), dtype=np.uint8)
        for index in np.arange(sim.batch)[slice(None) if rows is None else rows].tolist():
            out[index] = self.draw(index, sim.qpos(index))
        return out

    def _show(self, index: int) -> SceneRenderer:
        scene = self._scenes[index]
        if self._renderer is None:
            size = (self.view.size, self.view.size)
            self._renderer = SceneRenderer(scene, size=size, quality=COARSE)
            self._stages[index] = self._renderer.stage
        if index not in self._stages:
            self._stages[index] = self._renderer.set_up(scene)
        self._renderer.show(self._stages[index])
        return self._renderer
