"""Articulated fixtures: their physics, their poses in frames, their tasks."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from coda.sim import kinematics
from coda.sim.asset import Asset
from coda.sim.assets import ASSETS
from coda.sim.assets_articulated import ARTICULATED, CABINETS
from coda.sim.engine import CHUNK, BatchSim
from coda.sim.families import TaskSpec, family
from coda.sim.frame import Array, SimFrame
from coda.sim.planner_handle import grasp_yaw
from coda.sim.predicates import MAX_GRASP_HALF_M, grasp_point
from coda.sim.roles import AXES, ROLES
from coda.sim.scene import Attributes, ObjectAttributes, Pose, Scene, Spatial
from coda.sim.wording import named_roles, say

FAMILY = family("articulated")
HANDLE, TARGET = ROLES.index("handle"), ROLES.index("target")
NAMES = [item.name for item in ARTICULATED]
SCALES = (0.82, 1.0, 1.25)


def fixture_scene(
    name: str,
    *,
    opening: float = 0.0,
    xy: tuple[float, float] = (0.56, 0.0),
    yaw: float = 0.0,
    scale: float = 1.0,
) -> Scene:
    """A scene of one fixture that is to be opened."""
    seed = FAMILY.seed
    target = ObjectAttributes(asset=name, mass_kg=2.0, scale=scale, rgba=(0.1, 0.3, 0.8, 1.0))
    return seed.model_copy(
        update={
            "tau": seed.tau.model_copy(update={"opening": opening}),
            "sigma": Spatial(poses={"target": Pose(xy=xy, yaw=yaw)}),
            "alpha": Attributes(objects={"target": target}),
        }
    )


def idle(batch: int) -> Array:
    """Chunks that hold still with the gripper open."""
    actions = np.zeros((batch, CHUNK, 7))
    actions[:, :, 6] = -1.0
    return actions


def test_there_are_enough_fixtures_of_every_kind() -> None:
    assert len(ARTICULATED) - len(CABINETS) >= 10
    assert len(CABINETS) >= 2
    assert {item.noun for item in ARTICULATED} >= {"drawer", "door", "lid", "knob", "lever"}


@pytest.mark.parametrize("scale", SCALES[::2])
def test_a_fixture_stays_where_it_is_left(scale: float) -> None:
    openings = (0.0, 0.3, 0.6, 1.0)
    scenes = [fixture_scene(n, opening=o, scale=scale) for n in NAMES for o in openings]
    sim = BatchSim(scenes)
    start = sim.reset(settle_steps=0).opening
    assert start == pytest.approx([o for _ in NAMES for o in openings])
    for _ in range(4):  # 1.6 seconds
        frame = sim.step_chunk(idle(sim.batch)).frame
    assert np.abs(frame.opening - start).max() < 0.005
    assert np.abs(frame.joint_vel).max() < 0.005


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_resists_a_touch_and_gives_way_to_a_pull(name: str) -> None:
    sim = BatchSim([fixture_scene(name)])
    sim.reset()
    joint = ASSETS[name].joint
    assert joint is not None
    moved = []
    for factor in (0.5, 4.0):
        data = sim.data(0)
        dof = int(sim.models[0].joint("target_joint").dofadr[0])
        for _ in range(200):  # one second
            data.qfrc_applied[dof] = factor * joint.stiction
            mujoco.mj_step(sim.models[0], data)
        moved.append(float(data.joint("target_joint").qpos[0]) / float(sim.frame().joint_span[0]))
    assert moved[0] < 0.01
    assert moved[1] > 0.5
    assert moved[1] < 1.02, "the stop at the end of the travel holds"


@pytest.mark.parametrize("yaw", [0.0, 0.6])
def test_frames_agree_with_mujoco_about_what_moves(yaw: float) -> None:
    scenes = [fixture_scene(n, xy=(0.55, 0.1), yaw=yaw, scale=1.1) for n in NAMES]
    sim = BatchSim(scenes)
    sim.reset()
    for share in (0.0, 0.35, 1.0):
        for i in range(sim.batch):
            column = sim.layout(i).joint_columns
            state = sim.state(i)
            state[column[0]] = share * sim.frame().joint_span[i]
            state[column[1]] = 0.7
            sim.set_state(i, state)
        frame = sim.frame()
        assert frame.opening == pytest.approx(np.full(sim.batch, share))
        for i in range(sim.batch):
            _assert_handle(sim, frame, i)


def _assert_handle(sim: BatchSim, frame: SimFrame, i: int) -> None:
    data, model = sim.data(i), sim.models[i]
    body = data.body("handle")
    assert np.abs(frame.pos[i, HANDLE] - body.xpos).max() < 1e-9
    assert np.abs(frame.rot[i, HANDLE] - body.xmat.reshape(3, 3)).max() < 1e-9
    speed = np.zeros(6)
    kind = mujoco.mjtObj.mjOBJ_XBODY
    mujoco.mj_objectVelocity(model, data, kind, model.body("handle").id, speed, 0)
    assert np.abs(frame.angvel[i, HANDLE] - speed[:3]).max() < 1e-9
    assert np.abs(frame.linvel[i, HANDLE] - speed[3:]).max() < 1e-9


@pytest.mark.parametrize("item", CABINETS, ids=lambda item: item.name)
def test_a_cabinets_seat_comes_out_with_its_drawer(item: Asset) -> None:
    assert item.seat_moves
    assert item.seat_half_m is not None
    assert min(item.seat_half_m) >= 0.06
    sim = BatchSim([fixture_scene(item.name, opening=o, yaw=0.4) for o in (0.0, 1.0)])
    frame = sim.reset(settle_steps=0)
    way = frame.pos[1, TARGET] - frame.pos[0, TARGET]
    assert way == pytest.approx(frame.joint_axis[0] * frame.joint_span[0])
    for i in range(2):  # a ray down into the drawer's middle meets its floor
        data, above = sim.data(i), frame.pos[i, TARGET] + np.array([0.0, 0.0, 0.3])
        hit = np.zeros(1, dtype=np.int32)
        far = mujoco.mj_ray(
            sim.models[i], data, above, np.array([0.0, 0.0, -1.0]), None, 1, -1, hit
        )
        floor = frame.pos[i, TARGET, 2] + frame.seat[i, TARGET]
        if i == 1:
            assert above[2] - far == pytest.approx(floor, abs=1e-6)
        else:
            assert above[2] - far > floor + 0.03, "closed, the top is before it"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("opening", [0.0, 1.0])
def test_the_open_hand_fits_around_every_handle(opening: float, scale: float) -> None:
    sim = BatchSim([fixture_scene(n, opening=opening, scale=scale) for n in NAMES])
    frame = sim.reset()
    yaw = grasp_yaw(frame, np.zeros(sim.batch, dtype=np.bool_))
    q, error = kinematics.solve_ik(grasp_point(frame, "handle"), kinematics.down_rot(yaw))
    assert error.max() < 0.005
    for i, name in enumerate(NAMES):
        state = sim.state(i)
        state[1 : 1 + kinematics.N_JOINTS] = q[i]
        sim.set_state(i, state)
        data, model = sim.data(i), sim.models[i]
        touching = {
            tuple(sorted(model.body(model.geom_bodyid[g]).name for g in contact.geom))
            for contact in data.contact
            if contact.dist < 0
        }
        robot = [pair for pair in touching if any("0_" in body for body in pair)]
        assert not robot, f"{name}: {robot}"


@pytest.mark.parametrize("item", ARTICULATED, ids=lambda item: item.name)
def test_a_handle_is_narrow_enough_at_its_largest(item: Asset) -> None:
    joint = item.joint
    assert joint is not None
    assert max(SCALES) * min(joint.handle_half_m[:2]) < MAX_GRASP_HALF_M - 0.005


@pytest.mark.parametrize("task", FAMILY.tasks.values(), ids=lambda task: task.name)
def test_a_tasks_words_goal_and_start_agree(task: TaskSpec) -> None:
    spec, scene = task, task.seed
    assert scene.tau.task == spec.name
    assert scene.tau.instruction == say(spec.wordings[0], scene.alpha.objects)
    assert all(named_roles(wording) == ("target",) for wording in spec.wordings)
    assert len(set(spec.wordings)) >= 3
    opens = scene.tau.goal.relation == "open"
    assert opens == (spec.name.startswith("open") or spec.name == "turn-knob")
    assert scene.tau.opening == (0.0 if opens else 1.0)
    assert spec.max_steps % CHUNK == 0
    assert all(ASSETS[name].joint is not None for name in spec.assets["target"])
    assert scene.alpha.objects["target"].asset == spec.assets["target"][0]


def test_the_families_ranges_cover_every_axis_and_hold_out_assets_of_every_kind() -> None:
    assert set(FAMILY.narrow) == set(FAMILY.wide) == set(AXES)
    for task in FAMILY.tasks.values():
        held = set(task.assets["target"]) & set(FAMILY.held_out_assets)
        assert len(held) == 1
        assert len(task.assets["target"]) >= 3
        assert task.seed.alpha.objects["target"].asset not in held


def test_no_task_is_solved_at_its_start() -> None:
    sim = BatchSim([task.seed for task in FAMILY.tasks.values()])
    sim.reset()
    assert not sim.verified_now().any()
