"""Cameras of the Gymnasium environments: one renderer for each, following the scene."""

from __future__ import annotations

from coda.sim.frame import Array
from coda.sim.gym_scenes import Drawn
from coda.sim.render import CAMERAS, Camera, Image, Quality, SceneRenderer


class View:
    """Draws one environment's scenes, one after another. The renderer is made when first needed.

    Args:
        size: Height and width [pixels].
        quality: What a picture may cost.
    """

    def __init__(self, size: tuple[int, int], quality: Quality) -> None:
        self._size, self._quality = size, quality
        self._renderer: SceneRenderer | None = None

    def draw(self, drawn: Drawn, qpos: Array, camera: Camera = "agentview") -> Image:
        """Picture (H, W, 3) of a scene with generalised positions `qpos` (nq,)."""
        if self._renderer is None:
            self._renderer = SceneRenderer(drawn.scene, size=self._size, quality=self._quality)
        self._renderer.point_at(drawn.scene)
        return self._renderer.draw(qpos, camera=camera)

    def pictures(self, drawn: Drawn, qpos: Array) -> dict[str, Image]:
        """A picture of every camera."""
        return {name: self.draw(drawn, qpos, name) for name in CAMERAS}

    def close(self) -> None:
        """Free the renderer; drawing again makes another."""
        if self._renderer is not None:
            self._renderer.close()
        self._renderer = None
