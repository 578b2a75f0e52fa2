"""The planner's skill of moving an object onto plates and into containers."""

from __future__ import annotations

import numpy as np
import pytest

from coda.sim.engine import BatchSim
from coda.sim.families import family, task_of
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.planner_transfer import obstacle_height, rim_height, transfer, walled
from coda.sim.predicates import evaluate, grasp_point, underside
from coda.sim.roles import ROLES
from coda.sim.rollout import EpisodeData, run_episodes, run_scenes
from coda.sim.sampling import sample_where
from coda.sim.scene import Attributes, Scene
from coda.sim.splits import Splits
from coda.sim.terms import PredicateTerm

FAMILY = family("put-inside")
T, R, H = (ROLES.index(role) for role in ("target", "receptacle", "handle"))
INSIDE = PredicateTerm(name="inside", subject="target", reference="receptacle")


def scene_of(task: str, container: str, target: str) -> Scene:
    """A task's seed scene with other assets."""
    seed = FAMILY.tasks[task].seed
    objects = dict(seed.alpha.objects)
    objects["target"] = objects["target"].model_copy(update={"asset": target})
    objects["receptacle"] = objects["receptacle"].model_copy(update={"asset": container})
    return seed.model_copy(update={"alpha": Attributes(objects=objects)})


def scenes() -> list[Scene]:
    """Every container, with targets that are flat, tall, round and wide in turn."""
    targets = ("soap", "milk", "battery", "sponge", "candle", "block", "jar")
    places = [(task, name) for task, t in FAMILY.tasks.items() for name in t.assets["receptacle"]]
    return [scene_of(*place, targets[i % len(targets)]) for i, place in enumerate(places)]


@pytest.fixture(scope="module")
def episodes() -> list[EpisodeData]:
    """The planner in every container, with all control steps."""
    return run_episodes(BatchSim(scenes()), ScriptedPlanner(), keep_fine=True)


def frames_of(episode: EpisodeData) -> SimFrame:
    """States after every control step."""
    assert episode.fine is not None
    return SimFrame.unpack(episode.fine)


def label(episode: EpisodeData) -> str:
    """What an episode put where."""
    objects = episode.scene.alpha.objects
    return f"{objects['target'].asset} into {objects['receptacle'].asset}"


def test_every_container_is_filled_within_the_limit(episodes: list[EpisodeData]) -> None:
    for episode in episodes:
        assert episode.success, label(episode)
        assert episode.steps <= 0.85 * task_of(episode.scene).max_steps, label(episode)


def test_the_object_crosses_the_rim_from_above(episodes: list[EpisodeData]) -> None:
    for episode in episodes:
        frames = frames_of(episode)
        low = underside(frames, "target") < rim_height(frames, "receptacle")
        beside = np.abs(frames.pos[:, T, :2] - frames.pos[:, R, :2]).max(axis=1)
        outside = low & ~evaluate(INSIDE, frames)[0]
        carried = frames.touch_left[:, T] + frames.touch_right[:, T] > 0
        assert (beside[outside & carried] > 0.09).sum() >= 1, label(episode)  # at the grasp
        near = outside & carried & (beside < 0.09)
        assert (beside[near] < 0.02).all(), label(episode)  # on the way down, in the middle


def test_fingers_do_not_touch_the_container_while_they_carry(episodes: list[EpisodeData]) -> None:
    for episode in episodes:
        frames = frames_of(episode)
        first = int(np.argmax(frames.touch_left[:, T] + frames.touch_right[:, T] > 0))
        touched = (frames.touch_left[:, R] + frames.touch_right[:, R])[first:]
        assert first > 0, label(episode)
        assert not touched.any(), label(episode)


def test_the_drop_is_short(episodes: list[EpisodeData]) -> None:
    for episode in episodes:
        frames = frames_of(episode)
        inside = evaluate(INSIDE, frames)[0]
        assert frames.linvel[inside, T, 2].min() > -1.2, label(episode)


def test_a_drawer_is_opened_first_and_stays_open(episodes: list[EpisodeData]) -> None:
    seen = 0
    for episode in episodes:
        if episode.scene.tau.task != "closed-drawer":
            continue
        frames = frames_of(episode)
        touched = frames.touch_left[:, T] + frames.touch_right[:, T] > 0
        first = int(np.argmax(touched))
        assert frames.opening[0] < 0.05, label(episode)
        assert frames.opening[first:].min() > 0.7, label(episode)
        seen += 1
    assert seen == 2


def test_after_letting_go_the_hand_leaves_straight_up(episodes: list[EpisodeData]) -> None:
    for episode in episodes[::2]:
        sim = BatchSim([episode.scene])
        sim.reset()
        for chunk, length in zip(episode.actions, episode.lengths, strict=True):
            frame = sim.step_chunk(chunk[None, : int(length)]).frame
        planner, start = ScriptedPlanner(), frame.ee_pos[0].copy()
        for _ in range(20):  # a scene that is done stops after one step of a chunk
            frame = sim.step_chunk(planner(frame, np.ones(1, dtype=np.bool_))).frame
        assert frame.ee_pos[0, 2] > start[2] + 0.03, label(episode)
        assert np.abs(frame.ee_pos[0, :2] - start[:2]).max() < 0.01, label(episode)
        assert sim.verified_now()[0], label(episode)


def test_over_walls_and_handles_the_hand_keeps_its_height() -> None:
    frame = BatchSim([FAMILY.tasks["drawer"].seed, FAMILY.seed]).reset()
    height = obstacle_height(frame, "receptacle")
    top = frame.pos[0, H, 2] + frame.half_size[0, H, 2]
    assert height[0] == pytest.approx(top)
    assert height[0] > rim_height(frame, "receptacle")[0]
    assert height[1] == pytest.approx(rim_height(frame, "receptacle")[1])
    goal = transfer(frame, "target", "receptacle").goal
    assert (goal[:, 2] > height).all()
    assert (goal[:, 2] > grasp_point(frame, "target")[:, 2]).all()


def test_only_what_has_walls_is_a_container() -> None:
    for name in ("plate", "tray"):
        seed = family("pick-place").seed
        objects = dict(seed.alpha.objects)
        objects["receptacle"] = objects["receptacle"].model_copy(update={"asset": name})
        frame = BatchSim([seed.model_copy(update={"alpha": Attributes(objects=objects)})]).reset()
        assert not walled(frame, "receptacle")[0]
    assert walled(BatchSim(scenes()).reset(), "receptacle").all()


def sampled(task: str, count: int, *, wide: bool) -> list[Scene]:
    """Scenes of a task's reference programs: the seed range, or one axis after another wide."""
    splits = Splits("put-inside")
    axes = list(FAMILY.wide)
    found = []
    for i in range(count):
        program = splits.program((axes[i % len(axes)],) if wide else (), task=task)
        found.append(sample_where(program, np.random.default_rng([i, count])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("task", FAMILY.tasks)
@pytest.mark.parametrize(("wide", "least"), [(False, 0.95), (True, 0.85)], ids=["seed", "wide"])
def test_the_planner_solves_what_the_family_makes(task: str, wide: bool, least: float) -> None:
    done = run_scenes(sampled(task, 28, wide=wide), ScriptedPlanner())
    assert np.mean([episode.success for episode in done]) >= least
