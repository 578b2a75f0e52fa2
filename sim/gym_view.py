"""Cameras of the Gymnasium environments: one renderer for each size, following the scene."""

from __future__ import annotations

from coda.sim.frame import Array
from coda.sim.gym_scenes import Drawn
from coda.sim.render import CAMERAS, Camera, Image, SceneRenderer


class View:
    """Draws one environment's scenes, one after another. Renderers are built when first needed.

    Args:
        size: Height and width [pixels].
    """

    def __init__(self, size: tuple[int, int]) -> None:
        self._size = size
        self._digest = ""
        self._renderer: SceneRenderer | None = None

    def draw(self, drawn: Drawn, qpos: Array, camera: Camera = "agentview") -> Image:
        """Picture (H, W, 3) of a scene with generalised positions `qpos` (nq,)."""
        if self._renderer is None or drawn.digest != self._digest:
            self.close()
            self._renderer = SceneRenderer(drawn.scene, size=self._size)
            self._digest = drawn.digest
        return self._renderer.draw(qpos, camera=camera)

    def pictures(self, drawn: Drawn, qpos: Array) -> dict[str, Image]:
        """A picture of every camera."""
        return {name: self.draw(drawn, qpos, name) for name in CAMERAS}

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.__exit__(None, None, None)
        self._renderer = None
