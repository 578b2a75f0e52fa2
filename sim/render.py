"""Pictures of scenes and rollouts, off screen, from the agent view and the wrist camera."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim.engine import BatchSim
from coda.sim.gl import GL_ERRORS, GL_HINT, ensure_gl, open_context, refused
from coda.sim.light_robot import light_model
from coda.sim.mjcf import compile_scene
from coda.sim.scene import Scene
from coda.sim.simplify import simplify_robot

__all__ = [
    "CAMERAS", "COARSE", "FAST", "FILM", "GL_HINT", "STILL", "Camera", "Image", "Quality",
    "SceneRenderer", "Stage", "ensure_gl", "render_scene", "replay", "replayed",
]  # fmt: skip

Image = npt.NDArray[np.uint8]
Camera = Literal["agentview", "wrist"]

CAMERAS: dict[Camera, str] = {"agentview": "agentview", "wrist": "robot0_eye_in_hand"}
MAX_GEOMS = 2000
HIDDEN_GROUP = 5
SHADOW_MAP = 2048
"""Side of the shadow map [pixels]."""
AMBIENT, HEADLIGHT, KEY, FILL = 0.36, 0.12, 0.44, 0.20
"""Strengths of the light; they add up so that white in full light is not washed out."""
KEY_FROM, KEY_TO = (1.6, -0.8, 1.3), (0.45, 0.0, 0.0)
"""The light that throws shadows: from the camera's side, so that the arm's falls behind it [m]."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """What a picture costs; the simulation is the same."""

    samples: int
    """Samples a pixel (anti-aliasing); 0 is one."""
    shadows: bool
    cell_m: float
    """Details of the robot smaller than this are left out [m]; 0 keeps every triangle."""
    light: bool = False
    """Whether what is left out is not even loaded; see `coda.sim.light_robot`."""


FAST = Quality(samples=0, shadows=False, cell_m=0.008)
"""For a policy's observations of some 128 pixels."""
FILM = Quality(samples=4, shadows=False, cell_m=0.004)
COARSE = Quality(samples=0, shadows=False, cell_m=0.025, light=True)
"""For a policy's observations of some 64 pixels."""
STILL = Quality(samples=4, shadows=True, cell_m=0.0)
"""For single pictures that people look at."""


class Stage:
    """One scene, ready to be drawn by the renderer that set it up."""

    def __init__(
        self, scene: Scene, model: mujoco.MjModel, context: mujoco.MjrContext, *, shadows: bool
    ) -> None:
        self.scene, self.model, self.context = scene, model, context
        self.data = mujoco.MjData(model)
        self.groups = model.geom_group.copy()
        self.drawn = mujoco.MjvScene(model, MAX_GEOMS)
        self.drawn.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = int(shadows)
        self.drawn.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0


class SceneRenderer:
    """Draws scenes at any of their recorded states; one GL context. Use as a context manager.

    For one thread at a time. The renderer can be pointed at another scene, which costs a
    compilation, and an upload only where the meshes differ. Scenes that are drawn by turns are set
    up once each (`set_up`) and then shown (`show`).

    Args:
        scene: The scene; compiled with robosuite's visual meshes.
        size: Height and width [pixels].
        quality: `FAST`, `FILM`, `STILL` or another trade-off.
    """

    def __init__(
        self, scene: Scene, *, size: tuple[int, int] = (256, 256), quality: Quality = FILM
    ) -> None:
        self.size, self.quality = size, quality
        height, width = size
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = (1, 1, 1, 0, 0, 0)
        self._option.sitegroup[:] = 0
        self._view = mujoco.MjvCamera()
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._pixels: Image = np.zeros((height, width, 3), dtype=np.uint8)
        self._gl = open_context(width, height)
        self._stages: list[Stage] = []
        self._stage = self.set_up(scene)

    def __enter__(self) -> SceneRenderer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the GL context back; nothing can be drawn afterwards."""
        self._gl.make_current()
        for context in {id(stage.context): stage.context for stage in self._stages}.values():
            context.free()
        self._gl.free()

    @property
    def stage(self) -> Stage:
        """The scene that is drawn, as it was set up."""
        return self._stage

    @property
    def scene(self) -> Scene:
        """The scene that is drawn."""
        return self._stage.scene

    @property
    def model(self) -> mujoco.MjModel:
        """Its model."""
        return self._stage.model

    @property
    def data(self) -> mujoco.MjData:
        """Its state at the last picture."""
        return self._stage.data

    def set_up(self, scene: Scene) -> Stage:
        """Get a scene ready beside those that are; meshes that are the same are shared."""
        model = self._compile(scene)
        for stage in self._stages:
            if _same_meshes(model, stage.model):
                context = stage.context
                break
        else:
            context = self._upload(model)
        self._stages.append(Stage(scene, model, context, shadows=self.quality.shadows))
        return self._stages[-1]

    def show(self, stage: Stage) -> None:
        """Draw a scene that was set up here from now on."""
        if stage.context is not self._stage.context:
            self._gl.make_current()
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, stage.context)
        self._stage = stage

    def point_at(self, scene: Scene) -> None:
        """Draw another scene from now on, in the same GL context, and forget the one before."""
        if scene == self.scene:
            return
        before = self._stage
        self.show(self.set_up(scene))
        self._stages.remove(before)
        if all(stage.context is not before.context for stage in self._stages):
            before.context.free()

    def draw(self, qpos: npt.NDArray[np.float64], *, camera: Camera = "agentview") -> Image:
        """Picture (H, W, 3) of generalised positions `qpos` (nq,)."""
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        self._view.fixedcamid = camera_id = self.model.camera(CAMERAS[camera]).id
        if not self.quality.shadows:  # what is out of the picture may still throw a shadow
            out = self._out_of_view(camera_id)
            self.model.geom_group[:] = np.where(out, HIDDEN_GROUP, self._stage.groups)
        mujoco.mjv_updateScene(
            self.model,
            self.data,
            self._option,
            None,
            self._view,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._stage.drawn,
        )
        self._gl.make_current()
        mujoco.mjr_render(self._rect, self._stage.drawn, self._stage.context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._stage.context)
        return np.flipud(self._pixels).copy()

    def _out_of_view(self, camera_id: int) -> npt.NDArray[np.bool_]:
        """Geoms whose bounding sphere lies outside a camera's picture, (G,).

        MuJoCo would send all their triangles to the driver: for the wrist camera the whole arm.
        """
        height, width = self.size
        up = np.deg2rad(self.model.cam_fovy[camera_id]) / 2
        side = np.arctan(np.tan(up) * width / height)
        axes = self.data.cam_xmat[camera_id].reshape(3, 3)
        x, y, z = ((self.data.geom_xpos - self.data.cam_xpos[camera_id]) @ axes).T
        radius = self.model.geom_rbound
        outside = -z < -radius
        for offset, angle in ((np.abs(x), side), (np.abs(y), up)):
            outside |= offset * np.cos(angle) + z * np.sin(angle) > radius
        return np.asarray(outside & (radius > 0))  # a plane has no bounding sphere

    def _compile(self, scene: Scene) -> mujoco.MjModel:
        light, cell_m = self.quality.light, self.quality.cell_m
        model = light_model(scene, cell_m) if light else compile_scene(scene, visual=True)
        height, width = self.size
        model.vis.global_.offheight, model.vis.global_.offwidth = height, width
        model.vis.quality.offsamples = self.quality.samples
        model.vis.quality.shadowsize = SHADOW_MAP
        if cell_m > 0 and not light:
            simplify_robot(model, cell_m)
        _light(model)
        return model

    def _upload(self, model: mujoco.MjModel) -> mujoco.MjrContext:
        """Meshes and textures to the driver, the most expensive part of a new scene."""
        self._gl.make_current()
        try:
            context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except GL_ERRORS as error:
            self._gl.free()
            raise refused(error) from None
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
        return context


def _same_meshes(a: mujoco.MjModel, b: mujoco.MjModel) -> bool:
    """Whether what was uploaded of one model serves the other too."""
    names = (
        "mesh_vert", "mesh_normal", "mesh_face", "mesh_facenormal", "mesh_facenum", "mesh_texcoord",
        "mesh_facetexcoord", "mesh_graph", "tex_data", "mat_texid",
    )  # fmt: skip
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def _light(model: mujoco.MjModel) -> None:
    """Even light without glare, so that the wrist camera sees the table, not the lamp."""
    head = model.vis.headlight
    head.ambient[:], head.diffuse[:], head.specular[:] = AMBIENT, HEADLIGHT, 0.0
    model.light_ambient[:], model.light_specular[:] = 0.0, 0.05
    model.light_diffuse[:1], model.light_diffuse[1:] = KEY, FILL
    model.light_pos[0], model.light_dir[0] = KEY_FROM, np.subtract(KEY_TO, KEY_FROM)
    model.light_exponent[:], model.light_cutoff[:] = 0.0, 80.0  # no spots of light


def render_scene(
    scene: Scene,
    *,
    camera: Camera = "agentview",
    size: tuple[int, int] = (256, 256),
    quality: Quality = FILM,
) -> Image:
    """Picture (H, W, 3) of a scene after its reset."""
    sim = BatchSim([scene])
    sim.reset()
    with SceneRenderer(scene, size=size, quality=quality) as renderer:
        return renderer.draw(sim.qpos(0), camera=camera)


def replayed(
    sim: BatchSim, actions: npt.NDArray[np.float64], lengths: npt.NDArray[np.int64]
) -> Iterator[int]:
    """Simulate a stored rollout again in a batch of one; yields 0, then each control step done.

    Args:
        sim: One scene; reset here.
        actions: Chunks (T, H, 7).
        lengths: Control steps executed of each chunk (T,).
    """
    sim.reset()
    done = 0
    yield done
    for chunk, length in zip(actions, lengths, strict=True):
        for h in range(int(length)):
            sim.step_chunk(chunk[None, h : h + 1])
            done += 1
            yield done


def replay(
    scene: Scene,
    actions: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    *,
    every: int = 2,
    camera: Camera = "agentview",
    size: tuple[int, int] = (240, 320),
) -> tuple[list[Image], list[int]]:
    """Simulate a stored rollout again and picture every n-th control step.

    Returns:
        Pictures, and the control step of each.
    """
    sim = BatchSim([scene])
    pictures: list[Image] = []
    steps: list[int] = []
    with SceneRenderer(scene, size=size) as renderer:
        for step in replayed(sim, actions, lengths):
            if step % every == 0:
                pictures.append(renderer.draw(sim.qpos(0), camera=camera))
                steps.append(step)
    return pictures, steps
