"""Pictures: what the cameras see, fewer triangles, one context for many scenes."""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np
import numpy.typing as npt
import pytest

from coda.sim import render
from coda.sim.engine import BatchSim
from coda.sim.errors import SimulationError
from coda.sim.families import family
from coda.sim.mjcf import compile_scene
from coda.sim.paths import write_factor
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import evaluate
from coda.sim.render import FAST, FILM, STILL, Image, SceneRenderer, ensure_gl, replay
from coda.sim.simplify import simplify_robot
from coda.sim.terms import PredicateTerm

SEED = family("pick-place").seed
OTHER = write_factor(write_factor(SEED, "alpha.target.asset", "can"), "sigma.target.xy", (0.5, 0.1))
SIZE = (96, 128)


@pytest.fixture(scope="module", autouse=True)
def _needs_gl() -> None:
    try:
        ensure_gl()
    except SimulationError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def start() -> npt.NDArray[np.float64]:
    sim = BatchSim([SEED])
    sim.reset()
    return sim.qpos(0)


@pytest.fixture(scope="module")
def grasped() -> npt.NDArray[np.float64]:
    """Positions at the moment when the planner has lifted the target."""
    sim = BatchSim([SEED])
    frame, planner = sim.reset(), ScriptedPlanner()
    for _ in range(16):
        frame = sim.step_chunk(planner(frame, np.ones(1, dtype=np.bool_))).frame
        if evaluate(PredicateTerm(name="lifted"), frame)[0][0]:
            return sim.qpos(0)
    pytest.fail("the planner did not lift the target")


@pytest.fixture(scope="module")
def renderer() -> Iterator[SceneRenderer]:
    with SceneRenderer(SEED, size=SIZE, quality=FILM) as one:
        yield one


def red(picture: Image) -> npt.NDArray[np.bool_]:
    r, g, b = (picture[..., k].astype(int) for k in range(3))
    return np.asarray((r > 90) & (g < 60) & (b < 60))


def test_the_agent_view_shows_target_and_robot(
    renderer: SceneRenderer, start: npt.NDArray[np.float64]
) -> None:
    picture = renderer.draw(start)
    assert picture.shape == (*SIZE, 3)
    assert picture.dtype == np.uint8
    assert 10 < red(picture).sum() < 0.05 * red(picture).size
    top = picture[: SIZE[0] // 3, SIZE[1] // 3 : 2 * SIZE[1] // 3]
    assert (top.min(axis=2) > 180).any()  # the white hand
    assert (top.max(axis=2) < 110).any()  # its dark parts


def test_the_wrist_camera_shows_fingers_and_what_they_hold(
    renderer: SceneRenderer,
    start: npt.NDArray[np.float64],
    grasped: npt.NDArray[np.float64],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    height, width = SIZE
    picture = renderer.draw(grasped, camera="wrist")
    held = np.argwhere(red(picture))
    assert len(held) > 0.03 * height * width
    assert abs(held[:, 1].mean() - width / 2) < width / 10
    model = renderer.model
    fingers = [
        "finger" in model.body(int(body)).name and group < render.HIDDEN_GROUP
        for body, group in zip(model.geom_bodyid, renderer.stage.groups, strict=True)
    ]
    seen = {k: renderer.draw(q, camera="wrist") for k, q in (("open", start), ("held", grasped))}
    monkeypatch.setattr(
        renderer.stage, "groups", np.where(fingers, render.HIDDEN_GROUP, renderer.stage.groups)
    )
    for name, q in (("open", start), ("held", grasped)):
        changed = (renderer.draw(q, camera="wrist") != seen[name]).any(axis=2)
        assert changed[:, : width // 2].sum() > 25
        assert changed[:, width // 2 :].sum() > 25


@pytest.mark.parametrize("quality", [FILM, STILL])
def test_no_camera_is_dazzled(quality: render.Quality, start: npt.NDArray[np.float64]) -> None:
    with SceneRenderer(SEED, size=SIZE, quality=quality) as one:
        for camera in render.CAMERAS:
            picture = one.draw(start, camera=camera)
            assert (picture.min(axis=2) >= 254).mean() < 0.02
            assert 60 < picture.mean() < 220


def test_another_scene_in_the_same_context_draws_as_in_its_own(
    start: npt.NDArray[np.float64],
) -> None:
    sim = BatchSim([OTHER])
    sim.reset()
    there = sim.qpos(0)
    with SceneRenderer(SEED, size=SIZE) as one, SceneRenderer(OTHER, size=SIZE) as two:
        before = one.draw(start)
        wanted = two.draw(there)
        assert (before != wanted).any()
        one.point_at(OTHER)
        assert np.array_equal(one.draw(there), wanted)
        one.point_at(SEED)
        assert np.array_equal(one.draw(start), before)
        assert np.array_equal(two.draw(there), wanted)


def test_equal_meshes_are_not_uploaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with SceneRenderer(SEED, size=SIZE) as one:
        uploads: list[mujoco.MjModel] = []
        upload = one._upload

        def counted(model: mujoco.MjModel) -> mujoco.MjrContext:
            uploads.append(model)
            return upload(model)

        monkeypatch.setattr(one, "_upload", counted)
        one.point_at(write_factor(SEED, "sigma.target.xy", (0.4, 0.1)))
        assert uploads == []
        one.point_at(OTHER)  # a can is a mesh, a block is not
        assert len(uploads) == 1


def test_leaving_out_what_is_out_of_view_changes_no_picture(
    monkeypatch: pytest.MonkeyPatch, grasped: npt.NDArray[np.float64]
) -> None:
    with SceneRenderer(SEED, size=SIZE, quality=FAST) as one:
        hidden = {c: one.draw(grasped, camera=c) for c in render.CAMERAS}
        wrist = one.model.camera(render.CAMERAS["wrist"]).id
        assert one._out_of_view(wrist).sum() > 40  # most of the arm is behind the camera
        nothing = np.zeros(one.model.ngeom, dtype=np.bool_)
        monkeypatch.setattr(one, "_out_of_view", lambda camera_id: nothing)
        for camera, picture in hidden.items():
            assert np.array_equal(one.draw(grasped, camera=camera), picture)


def test_the_robot_is_drawn_with_a_fraction_of_its_triangles(
    start: npt.NDArray[np.float64],
) -> None:
    full = compile_scene(SEED, visual=True)
    model = compile_scene(SEED, visual=True)
    simplify_robot(model, FAST.cell_m)
    assert model.mesh_facenum.sum() < 0.4 * full.mesh_facenum.sum()
    assert np.array_equal(model.mesh_vert, full.mesh_vert)
    exact = render.Quality(samples=0, shadows=False, cell_m=0.0)
    with (
        SceneRenderer(SEED, size=(128, 128), quality=FAST) as fast,
        SceneRenderer(SEED, size=(128, 128), quality=exact) as slow,
    ):
        for camera in render.CAMERAS:
            a = fast.draw(start, camera=camera).astype(int)
            b = slow.draw(start, camera=camera).astype(int)
            assert (np.abs(a - b).max(axis=2) > 40).mean() < 0.03


def test_a_stored_rollout_is_pictured_again() -> None:
    actions = np.zeros((2, 8, 7))
    actions[:, :, 2] = -0.3
    pictures, steps = replay(SEED, actions, np.array([8, 3]), every=4, size=(48, 64))
    assert steps == [0, 4, 8]
    assert all(p.shape == (48, 64, 3) for p in pictures)
    assert (pictures[0] != pictures[2]).any()
