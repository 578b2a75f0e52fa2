"""Pictures of scenes and rollouts, off screen, with EGL or OSMesa chosen by itself."""

from __future__ import annotations

import ctypes.util
import importlib
import os
import sys
from typing import Any, Literal

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim.engine import BatchSim
from coda.sim.errors import SimulationError
from coda.sim.mjcf import compile_scene
from coda.sim.scene import Scene

Image = npt.NDArray[np.uint8]
Camera = Literal["agentview", "wrist"]

CAMERAS: dict[Camera, str] = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}
GL_HINT = "install one: apt-get install libosmesa6 (or libegl1), or set MUJOCO_GL=egl|osmesa|glfw"


def ensure_gl() -> str:
    """Name of the off-screen GL to use: `MUJOCO_GL` where set, else EGL with a device, else OSMesa.

    Raises `SimulationError` with the packages to install where none is there.
    """
    chosen = os.environ.get("MUJOCO_GL", "").lower()
    if chosen in ("egl", "osmesa", "glfw"):
        return chosen
    if chosen:
        raise SimulationError(f"MUJOCO_GL = {chosen!r}; allowed: egl, osmesa, glfw.")
    if sys.platform in ("darwin", "win32"):
        return "glfw"
    if ctypes.util.find_library("EGL") and os.path.exists("/dev/dri"):
        return "egl"
    if ctypes.util.find_library("OSMesa"):
        return "osmesa"
    if ctypes.util.find_library("EGL"):
        return "egl"
    raise SimulationError(f"no off-screen GL found; {GL_HINT}.")


def _context(backend: str, width: int, height: int) -> Any:
    """An off-screen GL context; MuJoCo's own choice is fixed when it is imported, ours is not."""
    try:
        module = importlib.import_module(f"mujoco.{backend}")
        context = module.GLContext(width, height)
        context.make_current()
    except (RuntimeError, AttributeError, ImportError, OSError, mujoco.FatalError) as error:
        words = " ".join(str(error).split())
        raise SimulationError(f"MuJoCo cannot render with {backend}: {words}; {GL_HINT}.") from None
    return context


class SceneRenderer:
    """Renders one scene at any of its recorded states. Use as a context manager.

    Args:
        scene: The scene; compiled with robosuite's visual meshes.
        size: Height and width [pixels].
    """

    def __init__(self, scene: Scene, *, size: tuple[int, int] = (256, 256)) -> None:
        height, width = size
        self.model = compile_scene(scene, visual=True)
        self.data = mujoco.MjData(self.model)
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = (1, 1, 1, 0, 0, 0)
        self._option.sitegroup[:] = 0
        self._gl = _context(ensure_gl(), width, height)
        self._scene = mujoco.MjvScene(self.model, 2000)
        # shadows are five times the rest of a picture's cost in software rendering
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._view = mujoco.MjvCamera()
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._context = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels: Image = np.zeros((height, width, 3), dtype=np.uint8)

    def __enter__(self) -> SceneRenderer:
        return self

    def __exit__(self, *exc: object) -> None:
        self._context.free()
        self._gl.free()

    def draw(self, qpos: npt.NDArray[np.float64], *, camera: Camera = "agentview") -> Image:
        """Picture (H, W, 3) of generalised positions `qpos` (nq,)."""
        self.data.qpos[:] = qpos
        mujoco.mj_forward(self.model, self.data)
        self._view.fixedcamid = self.model.camera(CAMERAS[camera]).id
        mujoco.mjv_updateScene(
            self.model,
            self.data,
            self._option,
            None,
            self._view,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return np.flipud(self._pixels).copy()


def render_scene(
    scene: Scene, *, camera: Camera = "agentview", size: tuple[int, int] = (256, 256)
) -> Image:
    """Picture (H, W, 3) of a scene after its reset."""
    sim = BatchSim([scene])
    sim.reset()
    with SceneRenderer(scene, size=size) as renderer:
        return renderer.draw(sim.data(0).qpos, camera=camera)


def replay(
    scene: Scene,
    actions: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    *,
    every: int = 2,
    camera: Camera = "agentview",
    size: tuple[int, int] = (240, 320),
) -> tuple[list[Image], list[int]]:
    """Simulate a stored rollout again and film it.

    Args:
        scene: Its scene.
        actions: Chunks (T, H, 7).
        lengths: Control steps executed of each chunk (T,).
        every: Film every n-th control step.

    Returns:
        Pictures, and the control step of each.
    """
    sim = BatchSim([scene])
    sim.reset()
    pictures: list[Image] = []
    steps: list[int] = []
    with SceneRenderer(scene, size=size) as renderer:
        pictures.append(renderer.draw(sim.data(0).qpos, camera=camera))
        steps.append(0)
        done = 0
        for chunk, length in zip(actions, lengths, strict=True):
            for h in range(int(length)):
                sim.step_chunk(chunk[None, h : h + 1])
                done += 1
                if done % every == 0:
                    pictures.append(renderer.draw(sim.data(0).qpos, camera=camera))
                    steps.append(done)
    return pictures, steps
