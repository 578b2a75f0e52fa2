"""Put inside: containers, seeds, ranges, and what counts as being inside."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from coda.sim.assets import ASSETS
from coda.sim.assets_containers import CONTAINERS
from coda.sim.engine import BatchSim
from coda.sim.families import family
from coda.sim.frame import Array, SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import evaluate, vertical_half
from coda.sim.roles import ROLES, Role
from coda.sim.scene import Attributes, Scene
from coda.sim.terms import PredicateTerm

FAMILY = family("put-inside")
T, R = ROLES.index("target"), ROLES.index("receptacle")
INSIDE = PredicateTerm(name="inside", subject="target", reference="receptacle")
ON = PredicateTerm(name="on", subject="target", reference="receptacle")
PLACES = [(task, name) for task, t in FAMILY.tasks.items() for name in t.assets["receptacle"]]
FIXED = [item.name for item in CONTAINERS]
UPRIGHT, LYING = (1.0, 0.0, 0.0, 0.0), (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)
SMALLEST = 0.5
"""Smallest scale that a scene allows."""


def scene_of(task: str, container: str, target: str = "soap", *, scale: float = 1.0) -> Scene:
    """A task's seed scene with other assets."""
    seed = FAMILY.tasks[task].seed
    objects = dict(seed.alpha.objects)
    objects["target"] = objects["target"].model_copy(update={"asset": target, "scale": scale})
    objects["receptacle"] = objects["receptacle"].model_copy(update={"asset": container})
    return seed.model_copy(update={"alpha": Attributes(objects=objects)})


def opened(scene: Scene, opening: float) -> Scene:
    """The scene with another initial opening."""
    return scene.model_copy(update={"tau": scene.tau.model_copy(update={"opening": opening})})


class Place:
    """One scene whose target can be put anywhere around its container."""

    def __init__(self, scene: Scene) -> None:
        self.sim = BatchSim([scene])
        self.frame = self.sim.reset()
        self.half = float(vertical_half(self.frame, "target")[0])
        self.seat = self.frame.pos[0, R] + (0.0, 0.0, self.frame.seat[0, R])
        self.mouth = float(self.frame.pos[0, R, 2] + self.frame.mouth[0, R])
        self.side: Array = self.frame.seat_half[0, R]
        _, self.q, self.v = next(body for body in self.sim.layout(0).free if body[0] == T)

    def put(
        self, x: float, y: float, z: float, quat: tuple[float, float, float, float] = UPRIGHT
    ) -> SimFrame:
        """Put the target's centre to (x, y) from the seat's centre, at height z [m]."""
        state = self.sim.state(0)
        state[self.q : self.q + 3] = (self.seat[0] + x, self.seat[1] + y, z)
        state[self.q + 3 : self.q + 7] = quat
        state[self.v : self.v + 6] = 0.0
        return self.sim.set_state(0, state)

    def inside(self, x: float, y: float, z: float) -> bool:
        """Whether an upright target would be inside there."""
        return bool(evaluate(INSIDE, self.put(x, y, z))[0][0])

    def overlap(self) -> bool:
        """Whether target and container overlap in the present state."""
        data, model = self.sim.data(0), self.sim.models[0]
        both = {int(model.body(name).id) for name in ("target", "receptacle")}
        pairs = model.geom_bodyid[data.contact.geom[data.contact.dist < 0]].tolist()
        return any(set(pair) == both for pair in pairs)


def test_the_family_has_what_it_promises() -> None:
    assert list(FAMILY.tasks) == ["bin", "basket", "drawer", "closed-drawer"]
    names = {n for t in FAMILY.tasks.values() for role in t.assets for n in t.assets[role]}
    assert len(names) >= 16
    assert len(FIXED) >= 6
    targets = set(FAMILY.tasks["bin"].assets["target"])
    assert len(targets & set(FAMILY.held_out_assets)) >= 2
    for ranges in (FAMILY.narrow, FAMILY.wide):
        assert set(ranges) == {
            "position", "yaw", "size", "mass-friction", "distractors", "goal", "asset"
        }  # fmt: skip


@pytest.mark.parametrize("task", FAMILY.tasks)
def test_seeds_say_what_they_are_about(task: str) -> None:
    spec = FAMILY.tasks[task]
    assert spec.seed.tau.task == task
    assert spec.max_steps % 8 == 0
    assert len(set(spec.wordings)) >= 4
    noun = ASSETS[spec.seed.alpha.objects["receptacle"].asset].noun
    assert noun in spec.seed.tau.instruction
    assert "red soap bar" in spec.seed.tau.instruction
    sim = BatchSim([spec.seed])
    sim.reset()
    assert not sim.verified_now()[0]


def test_every_target_passes_every_mouth_at_any_turn() -> None:
    for spec in FAMILY.tasks.values():
        for container in spec.assets["receptacle"]:
            seat = ASSETS[container].seat_half_m
            assert seat is not None
            for target in spec.assets["target"]:
                x, y, _ = ASSETS[target].half_size_m
                reach = x if ASSETS[target].round else math.hypot(x, y)
                assert reach < min(seat), (container, target)


@pytest.mark.parametrize(("task", "container"), PLACES)
def test_seat_and_rim_are_where_the_shapes_are(task: str, container: str) -> None:
    sim = BatchSim([opened(scene_of(task, container), 1.0)])
    frame, data, model = sim.reset(), sim.data(0), sim.models[0]
    seat, mouth = frame.seat[0, R], frame.mouth[0, R]
    for share in ((0.0, 0.0), (-0.5, 0.0), (0.0, -0.7)):
        above = frame.pos[0, R] + (*(np.array(share) * frame.seat_half[0, R]), 0.2)
        hit = np.zeros(1, dtype=np.int32)
        down = mujoco.mj_ray(
            model, data, above, np.array([0.0, 0.0, -1.0]), None, 1, model.body("target").id, hit
        )
        assert above[2] - down == pytest.approx(frame.pos[0, R, 2] + seat, abs=1e-4)
    assert mouth - seat >= 0.02 + 0.01


@pytest.mark.parametrize(("task", "container"), PLACES)
def test_inside_ends_where_the_walls_and_the_rim_are(task: str, container: str) -> None:
    place = Place(opened(scene_of(task, container), 1.0))
    x, y = place.side
    floor = float(place.seat[2]) + place.half
    assert place.inside(0.0, 0.0, floor)
    for sign in (-1, 1):
        assert place.inside(sign * (x - 1e-4), 0.0, floor)
        assert not place.inside(sign * (x + 1e-4), 0.0, floor)
        assert place.inside(0.0, sign * (y - 1e-4), floor)
        assert not place.inside(0.0, sign * (y + 1e-4), floor)
    assert place.inside(0.0, 0.0, place.mouth - 0.02 + place.half - 1e-4)
    assert not place.inside(0.0, 0.0, place.mouth - 0.02 + place.half + 1e-4)
    assert not place.inside(0.0, 0.0, place.mouth + place.half)  # across the rim
    assert not place.inside(0.0, 0.0, float(place.seat[2]) - 1e-4)  # under the floor


@pytest.mark.parametrize("container", FIXED)
@pytest.mark.parametrize("quat", [UPRIGHT, LYING], ids=["standing", "lying"])
@pytest.mark.parametrize("target", ["battery", "soap"])
def test_what_leans_on_the_outside_is_not_inside(
    container: str, quat: tuple[float, float, float, float], target: str
) -> None:
    """The smallest object, as close as it gets to a container, around one half of it."""
    task = next(task for task, name in PLACES if name == container)
    place = Place(scene_of(task, container, target, scale=SMALLEST))
    for angle in np.linspace(0.0, math.pi, 9)[:-1]:
        direction = np.array([math.cos(angle), math.sin(angle)])
        place.put(0.0, 0.0, 0.5, quat)
        height = float(vertical_half(place.sim.frame(), "target")[0]) + 0.0005
        out = 0.13
        while out > 0.05:
            place.put(out * direction[0], out * direction[1], height, quat)
            if place.overlap():
                break
            assert not evaluate(INSIDE, place.sim.frame())[0][0], (angle, out)
            out -= 0.002
        assert out > 0.05, "never touched the container"


@pytest.mark.parametrize("container", FIXED)
def test_what_lies_against_a_wall_is_inside(container: str) -> None:
    task = next(task for task, name in PLACES if name == container)
    place = Place(scene_of(task, container, "soap", scale=0.6))
    floor = float(place.seat[2]) + place.half + 0.0005
    for angle in np.linspace(0.0, 2 * math.pi, 9)[:-1]:
        out = 0.02
        while not place.overlap() and out < 0.15:
            place.put(out * math.cos(angle), out * math.sin(angle), floor)
            assert place.overlap() or evaluate(INSIDE, place.sim.frame())[0][0], (angle, out)
            out += 0.002
        assert 0.03 < out < 0.15
        place.put(0.0, 0.0, floor)


@pytest.mark.parametrize("container", FAMILY.tasks["drawer"].assets["receptacle"])
def test_a_drawer_takes_its_seat_along(container: str) -> None:
    scene = scene_of("drawer", container)
    closed = Place(opened(scene, 0.0))
    for opening in (0.0, 0.3, 0.7, 1.0):
        place = Place(opened(scene, opening))
        moved = place.seat - closed.seat
        travel = float(place.frame.joint_span[0])
        np.testing.assert_allclose(moved, (-opening * travel, 0.0, 0.0), atol=1e-3)
        floor = float(place.seat[2]) + place.half
        assert place.inside(0.0, 0.0, floor)
        # where the drawer was when closed, which is behind it once it stands out
        assert place.inside(-moved[0], 0.0, floor) == (opening * travel < place.side[0])
        assert not place.inside(0.0, 0.0, float(place.seat[2]) - 0.003)


def test_the_gripper_has_to_let_go() -> None:
    """Held in the container, an object is inside; the task is not done."""
    sim = BatchSim([FAMILY.seed])
    planner, frame = ScriptedPlanner(), sim.reset()
    held_inside = 0
    for _ in range(16):
        result = sim.step_chunk(planner(frame, np.ones(1, dtype=np.bool_)), keep=True)
        for step in result.frames:
            touched = step.touch_left[0, T] > 0 and step.touch_right[0, T] > 0
            if evaluate(INSIDE, step)[0][0] and touched:
                held_inside += 1
                assert not all(evaluate(term, step)[0][0] for term in FAMILY.seed.nu.terms)
        frame = result.frame
        if result.success[0]:
            break
    assert held_inside > 0
    assert result.success[0]


@pytest.mark.parametrize(("task", "container"), PLACES)
def test_what_is_dropped_in_comes_to_rest_as_done_and_beside_it_does_not(
    task: str, container: str
) -> None:
    scene = opened(scene_of(task, container, "jar"), 1.0)
    idle = np.zeros((1, 16, 7))
    idle[:, :, 6] = -1.0
    for name, x, expected in (("in", 0.0, True), ("behind", 0.26, False)):
        place = Place(scene)
        place.put(x, 0.0, place.mouth + place.half + 0.01, LYING)
        done = any(place.sim.step_chunk(idle).success[0] for _ in range(3))
        assert done == expected, name


@pytest.mark.parametrize(("task", "container"), PLACES)
def test_on_its_floor_but_not_across_its_rim(task: str, container: str) -> None:
    scene = opened(scene_of(task, container, "cube"), 1.0)
    idle = np.zeros((1, 10, 7))
    idle[:, :, 6] = -1.0
    place = Place(scene)
    place.put(0.0, 0.0, float(place.seat[2]) + place.half + 0.002)
    settled = place.sim.step_chunk(idle).frame
    assert evaluate(ON, settled)[0][0]
    across = place.put(0.0, float(place.side[1]), place.mouth + place.half)
    assert not evaluate(ON, across)[0][0]
    assert not evaluate(INSIDE, across)[0][0]


def test_scenes_whose_bodies_have_other_inertia_do_not_share_memory() -> None:
    """The sponge's centre of mass is off its origin: a denser matrix under the same signature."""
    scenes = [scene_of("bin", "bin", name) for name in ("soap", "sponge", "candle")]
    together = BatchSim(scenes)
    planner = ScriptedPlanner()
    frame = together.reset()
    chunks = []
    for _ in range(3):
        chunks.append(planner(frame, np.ones(3, dtype=np.bool_)))
        frame = together.step_chunk(chunks[-1]).frame
    for i, scene in enumerate(scenes):
        alone = BatchSim([scene])
        alone.reset()
        for chunk in chunks:
            alone.step_chunk(chunk[i : i + 1])
        assert np.array_equal(alone.frame().pack()[0], frame.pack()[i]), scene.alpha.objects


def test_roles_of_a_drawer_scene_include_its_handle() -> None:
    frame = BatchSim([FAMILY.tasks["drawer"].seed]).reset()
    handle: Role = "handle"
    assert frame.present[0, ROLES.index(handle)] == 1.0
    assert frame.opening[0] == pytest.approx(1.0, abs=0.02)
