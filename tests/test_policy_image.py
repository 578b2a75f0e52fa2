"""The image policy sees nothing privileged; pictures of live scenes, of episodes and of labels."""

from __future__ import annotations

import functools
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from coda.policy.base import PolicyError
from coda.policy.batches import build
from coda.policy.config import DEBUG_CRITIC, DEBUG_LEARNER, DEBUG_POLICY, PictureConfig
from coda.policy.critic import ChunkCritic
from coda.policy.image import ImageChunkPolicy
from coda.policy.lookahead import LookaheadConfig, SearchResult, search
from coda.policy.observation import (
    FEATURES,
    OBSERVATION_DIM,
    PROPRIOCEPTION,
    PROPRIOCEPTION_DIM,
    TEXT_DIM,
    observe_vector,
    proprioception,
)
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.replay import Replay
from coda.policy.state_value import search_value
from coda.sim.cameras import Cameras, Pictures, View
from coda.sim.engine import BatchSim
from coda.sim.errors import SimulationError
from coda.sim.frame import Array, SimFrame
from coda.sim.light_robot import light_model
from coda.sim.mjcf import compile_scene, project
from coda.sim.planner import ScriptedPlanner
from coda.sim.predicates import Bool
from coda.sim.render import COARSE, SceneRenderer
from coda.sim.rollout import Seeing, run_episodes, run_scenes, with_pictures
from coda.tools.acting import Selected, policy_actor
from tests.policy_world import scenes, successes, text

SHAPE = DEBUG_POLICY.model_copy(update={"pictures": PictureConfig(size=32, channels=4)})
VIEW = View(size=32)
OF_THE_ROBOT = {
    "ee_pos", "ee_rot", "ee_linvel", "command_pos", "command_rot", "gripper_width_m",
    "gripper_command",
}  # fmt: skip


@functools.cache
def policy() -> ImageChunkPolicy:
    """A policy whose chunks depend on what it sees: an untrained head would be zero."""
    model = ImageChunkPolicy(SHAPE)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    model.update_average(0.0)
    return model


def frames() -> SimFrame:
    return SimFrame.unpack(successes()[0].frames)


def rows(frame: SimFrame) -> npt.NDArray[np.float32]:
    return np.repeat(text()[None], frame.batch, axis=0)


def pictures(batch: int, seed: int = 0) -> Pictures:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (batch, *VIEW.shape), dtype=np.uint8)


def disturbed(frame: SimFrame) -> SimFrame:
    """Other values in everything that a real robot does not know."""
    rng = np.random.default_rng(0)
    return replace(
        frame,
        **{
            f.name: rng.normal(size=getattr(frame, f.name).shape)
            for f in fields(frame)
            if f.name not in OF_THE_ROBOT
        },
    )


def test_nothing_privileged_reaches_its_chunks() -> None:
    frame = frames()
    other = disturbed(frame)
    assert not np.allclose(observe_vector(frame), observe_vector(other))
    shown = pictures(frame.batch)
    one, two = (policy().observe(f, rows(frame), shown) for f in (frame, other))
    assert one.vector.shape == (frame.batch, PROPRIOCEPTION_DIM)
    assert torch.equal(one.vector, two.vector)
    assert torch.equal(policy().mode(one), policy().mode(two))
    draws = [
        policy().sample(obs, 3, generator=torch.Generator().manual_seed(1)) for obs in (one, two)
    ]
    assert torch.equal(*draws)


@pytest.mark.parametrize("name", sorted(OF_THE_ROBOT))
def test_proprioception_reads_all_of_the_robots_own_state(name: str) -> None:
    frame = frames()
    moved = replace(frame, **{name: getattr(frame, name) + 0.1})
    assert not np.array_equal(proprioception(frame), proprioception(moved))


def test_proprioception_is_the_beginning_of_the_privileged_vector() -> None:
    assert FEATURES[: len(PROPRIOCEPTION)] == PROPRIOCEPTION
    np.testing.assert_array_equal(
        observe_vector(frames())[:, :PROPRIOCEPTION_DIM], proprioception(frames())
    )
    assert policy().features == PROPRIOCEPTION


def test_both_cameras_and_the_instruction_count() -> None:
    frame = frames()
    shown = pictures(frame.batch)
    base = policy().mode(policy().observe(frame, rows(frame), shown))
    for camera in range(len(VIEW.cameras)):
        changed = shown.copy()
        changed[:, camera] = 255 - changed[:, camera]
        assert not torch.allclose(
            base, policy().mode(policy().observe(frame, rows(frame), changed))
        )
    told = np.repeat(text(1)[None], frame.batch, axis=0)
    assert not torch.allclose(base, policy().mode(policy().observe(frame, told, shown)))


def test_going_without_pictures_is_refused_in_one_line() -> None:
    frame = frames()
    for shown in (None, pictures(frame.batch)[:, :1], pictures(frame.batch + 1)):
        with pytest.raises(PolicyError, match="image policy needs pictures") as caught:
            policy().observe(frame, rows(frame), shown)
        assert "\n" not in str(caught.value)
    memory = Replay()
    memory.add(successes()[0], text(), source="planner")
    with pytest.raises(PolicyError, match="the replay holds no pictures"):
        build(policy(), memory, None, DEBUG_LEARNER)


def test_a_batchs_pictures_are_those_of_single_scenes_after_many_steps() -> None:
    some = scenes(3)
    sim = BatchSim(some)
    sim.reset()
    with Cameras(some, VIEW) as cameras:
        cameras.look(sim)  # moves on afterwards
        sim.step_chunk(np.full((3, 8, 7), 0.3))
        shown = cameras.look(sim, np.array([True, False, True]))
    assert shown.shape == (3, *VIEW.shape)
    assert not shown[1].any()
    for index in (0, 2):
        with SceneRenderer(some[index], size=(32, 32), quality=COARSE) as one:
            for k, camera in enumerate(VIEW.cameras):
                alone = one.draw(sim.qpos(index), camera=camera)
                np.testing.assert_array_equal(shown[index, k], alone.transpose(2, 0, 1))


def test_light_models_show_what_the_full_ones_show() -> None:
    scene = scenes(1)[0]
    sim = BatchSim([scene])
    sim.step_chunk(ScriptedPlanner()(sim.reset(), np.ones(1, np.bool_)))
    full, light = compile_scene(scene, visual=True), light_model(scene, COARSE.cell_m)
    assert (light.nq, light.nv, light.nbody) == (full.nq, full.nv, full.nbody)
    assert light.nbuffer < 4e6 < full.nbuffer
    np.testing.assert_allclose(light.body_pos, full.body_pos)
    heavy = replace(COARSE, light=False)
    shown: list[npt.NDArray[np.int64]] = []
    for quality in (COARSE, heavy):
        with SceneRenderer(scene, size=(64, 64), quality=quality) as one:
            shown.append(one.draw(sim.qpos(0)).astype(np.int64))
    assert np.abs(shown[0] - shown[1]).mean() < 2.0
    assert (np.abs(shown[0] - shown[1]).max(axis=2) > 40).mean() < 0.02


def test_the_target_is_seen_in_both_cameras() -> None:
    """The cube is red and little else is; the wrist sees it until it is over it."""
    episode = with_pictures(successes()[:1], View(size=64))[0]
    assert episode.pictures is not None
    red = episode.pictures.astype(int)
    mask = (red[:, :, 0] > 100) & (red[:, :, 1] < 90) & (red[:, :, 2] < 90)
    seen = mask.sum(axis=(2, 3)) >= 6
    assert seen.mean(axis=0).min() >= 0.7
    frame = SimFrame.unpack(episode.frames[:1])
    column, row, _ = project(frame.pos[:, 0])[0]
    where = np.argwhere(mask[0, 0]).mean(axis=0)
    assert np.abs(where - 64 * np.array([row, column])).max() < 3.0


class Watched:
    """A planner that remembers what it was shown."""

    def __init__(self) -> None:
        self.planner, self.shown = ScriptedPlanner(), list[Pictures]()

    def __call__(self, frame: SimFrame, active: Bool, seen: Pictures) -> Array:
        assert seen[active].any(axis=(1, 2, 3, 4)).all()
        assert not seen[~active].any()
        self.shown.append(seen)
        return self.planner(frame, active)


def test_actors_are_shown_the_live_scenes_and_episodes_keep_what_they_saw() -> None:
    some, watched = scenes(3), Watched()
    sim = BatchSim(some)
    episodes = run_episodes(sim, Seeing(view=VIEW, act=watched, keep=True))
    blind = run_scenes(some, ScriptedPlanner())
    for b, (episode, other) in enumerate(zip(episodes, blind, strict=True)):
        assert np.array_equal(episode.frames, other.frames)
        assert episode.pictures is not None
        assert len(episode.pictures) == len(episode.frames)
        for step in range(len(episode.lengths)):
            assert np.array_equal(episode.pictures[step], watched.shown[step][b])
    forgotten = run_scenes(some[:1], Seeing(view=VIEW, act=Watched()))
    assert forgotten[0].pictures is None
    for episode, again in zip(episodes, with_pictures(blind, VIEW), strict=True):
        assert np.array_equal(episode.pictures, again.pictures)  # type: ignore[arg-type]


def test_an_episode_that_does_not_repeat_itself_is_refused() -> None:
    episode = successes()[0]
    forged = replace(episode, frames=episode.frames + 1e-3)
    with pytest.raises(SimulationError, match="does not repeat itself"):
        with_pictures([forged], VIEW)


def test_episodes_of_short_chunks_repeat_themselves_too() -> None:
    short = run_scenes(scenes(2), ScriptedPlanner(), chunk_steps=4, max_steps=40)
    for before, shown in zip(short, with_pictures(short, VIEW), strict=True):
        assert np.array_equal(before.frames, shown.frames)
        assert shown.pictures is not None
        assert len(shown.pictures) == len(before.frames)


@functools.cache
def searched() -> SearchResult:
    """A short search that the policy leads in part."""
    some = scenes(2)
    return search(
        some,
        Potential(base_program("pick-place")),
        policy(),
        np.repeat(text()[None], 2, axis=0),
        LookaheadConfig(servo_candidates=4, max_steps=32, policy_share=0.5),
        rng=np.random.default_rng(0),
    )


def test_labels_hold_the_pictures_of_both_their_states(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = Cameras.draw

    def counted(self: Cameras, index: int, qpos: Array) -> Pictures:
        drawn.append(index)
        return draw(self, index, qpos)

    monkeypatch.setattr(Cameras, "draw", counted)
    searched.cache_clear()
    result = searched()
    for scene in (0, 1):
        own = [label for label in result.labels if label.scene == scene]
        assert len(drawn) <= 2 * len(result.labels) + 2  # not one for each branch
        for label, then in pairwise(own):
            assert label.pictures is not None
            assert then.pictures is not None
            if label.executed and np.array_equal(label.frames[1], then.frames[0]):
                assert np.array_equal(label.pictures[1], then.pictures[0])
    assert any(label.executed for label in result.labels)
    assert not all(label.executed for label in result.labels)


def with_labels() -> Replay:
    memory = Replay()
    for label in searched().labels:
        assert label.pictures is not None
        memory.add_transitions(
            label.frames[None],
            label.action[None],
            np.array([label.length]),
            np.array([label.success]),
            text(),
            pictures=label.pictures[None],
            episode_success=True,
        )
    return memory


def test_a_replay_has_pictures_of_every_state_or_of_none(tmp_path: Path) -> None:
    memory = with_labels()
    assert memory.pictures is not None
    assert len(memory.pictures) == memory.states
    for label, state in zip(searched().labels, memory["next_state"], strict=True):
        assert label.pictures is not None
        assert np.array_equal(memory.pictures[state], label.pictures[1])
    with pytest.raises(PolicyError, match="every state has them, of one shape, or none has"):
        memory.add(successes()[0], text(), source="planner")
    bare = Replay()
    bare.add(successes()[0], text(), source="planner")
    assert bare.pictures is None
    shown = with_pictures(successes()[:1], VIEW)[0]
    with pytest.raises(PolicyError, match="every state has them"):
        bare.add(shown, text(), source="planner")
    memory.save(tmp_path / "r.npz")
    with pytest.raises(PolicyError, match="every state has them"):
        bare.load(tmp_path / "r.npz")
    bare.save(tmp_path / "bare.npz")
    with np.load(tmp_path / "bare.npz") as file:
        assert "pictures" not in file.files


def test_learners_index_the_replays_own_memory() -> None:
    memory = with_labels()
    data = build(policy(), memory, None, DEBUG_LEARNER)
    assert data.pictures is not None
    assert memory.pictures is not None
    assert data.pictures.data_ptr() == memory.pictures.ctypes.data
    assert data.vector.shape == (memory.states, PROPRIOCEPTION_DIM)
    assert data.privileged.shape == (memory.states, OBSERVATION_DIM)


def test_a_search_asks_no_value_that_would_need_pictures_of_branches() -> None:
    critic = ChunkCritic(config=DEBUG_CRITIC, obs_dim=OBSERVATION_DIM, chunk_dim=policy().chunk_dim)
    assert search_value(policy(), critic, Potential(base_program("pick-place")), "sparse") is None


def test_a_critic_may_choose_among_its_chunks() -> None:
    """The critic is asymmetric: it reads the simulator's state, the policy its pictures."""
    critic = ChunkCritic(config=DEBUG_CRITIC, obs_dim=OBSERVATION_DIM, chunk_dim=policy().chunk_dim)
    chooser = Selected(policy=policy(), critic=critic, potential=None, count=2)
    some = scenes(2)
    actor = policy_actor(chooser, np.zeros((2, TEXT_DIM), np.float32), seed=0)
    assert isinstance(actor, Seeing)
    episodes = run_scenes(some, actor, max_steps=16)
    assert [len(e.lengths) for e in episodes] == [2, 2]
