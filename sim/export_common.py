"""What is exported of an episode: it is simulated again, step by step, and must come out the same.

Row t of an episode of S control steps is what was seen before action t, the action, and what came
of it. Every quantity is in the robot's base frame: metres, radians, seconds.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from coda.sim.engine import ACTION_DIM, BatchSim
from coda.sim.errors import CodaError
from coda.sim.export_xml import portable_xml
from coda.sim.frame import Array, SimFrame
from coda.sim.mjcf import scene_xml
from coda.sim.render import FAST, FILM, Camera, Image, SceneRenderer
from coda.sim.roles import ROLES
from coda.sim.rollout import EpisodeData, Outcome
from coda.sim.scene import Scene

INSTALL = "pip install 'coda-robotics[export]'"
FAST_UP_TO = 160
"""Largest side of a picture that is drawn without anti-aliasing [pixels]."""

STATE_NAMES: tuple[str, ...] = (
    *(f"ee_{axis}_m" for axis in "xyz"),
    *(f"ee_axis_x_{axis}" for axis in "xyz"),
    *(f"ee_axis_y_{axis}" for axis in "xyz"),
    "gripper_width_m",
)
"""Proprioception: grasp point between the finger tips, the gripper's rotation as the first two
columns of its matrix (x and y axis of the gripper in the base frame), gap between the fingers."""
ACTION_NAMES: tuple[str, ...] = (
    *(f"d{axis}" for axis in "xyz"),
    *(f"rot_{axis}" for axis in "xyz"),
    "gripper",
)
"""Normalised to [-1, 1]: displacement / 0.05 m, axis-angle / 0.5 rad, gripper (> 0 closes)."""
_OBJECT_NAMES: tuple[str, ...] = (
    "present",
    *(f"{axis}_m" for axis in "xyz"),
    *(f"axis_x_{axis}" for axis in "xyz"),
    *(f"axis_y_{axis}" for axis in "xyz"),
    *(f"half_{axis}_m" for axis in "xyz"),
)
PRIVILEGED_NAMES: tuple[str, ...] = (
    *(f"{role}.{name}" for role in ROLES for name in _OBJECT_NAMES),
    "joint.opening",
    "joint.goal",
)
"""Privileged: true poses and sizes by role, zero where a role is absent, and the opening of an
articulated fixture and its goal as shares of the travel. No robot can see them."""


class ExportError(CodaError):
    """An export cannot be made as asked."""


class NotReproduced(ExportError):
    """A stored episode does not come out the same on this version of the simulator."""


def require(module: str) -> Any:
    """Import a module of the ``export`` extra. Raises `ExportError` with the command to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ExportError(
            f"exporting needs {module.split('.')[0]}, which cannot be imported ({error}); "
            f"install it: {INSTALL}"
        ) from None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where an episode comes from."""

    kind: Literal["planner", "rollout"]
    """Demonstration of the scripted planner, or rollout of a run's policy."""
    name: str
    """Episode id in its run, or ``<family>:<program>:<seed>:<index>``."""
    seed: int
    """Of the run, or of the planner's scene draw: ``default_rng([seed, index])``."""
    purpose: str = "demonstrate"


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One episode of S control steps, all that an export holds of it."""

    scene: Scene
    origin: Origin
    outcome: Outcome
    actions: Array
    """Executed actions (S, 7), exact."""
    states: Array
    """MuJoCo states [time, qpos, qvel] before every action and at the end, (S + 1, 1 + nq + nv)."""
    n_positions: int
    """Generalised positions nq; the first seven are the arm's joints, then two fingers."""
    frames: Array
    """Packed frames, likewise, (S + 1, F)."""
    model_xml: str
    """MJCF of the physics; mesh files are relative to the packages that ship them."""
    images: Mapping[Camera, npt.NDArray[np.uint8]] = field(default_factory=dict)
    """Pictures before every action (S, H, W, 3), right way up."""

    @property
    def steps(self) -> int:
        """Control steps S."""
        return len(self.actions)

    @property
    def success(self) -> bool:
        """Whether the verifier was met, at the last step."""
        return self.outcome is Outcome.SUCCESS

    @property
    def reached(self) -> npt.NDArray[np.bool_]:
        """Whether the episode was a success after each action (S,)."""
        out = np.zeros(self.steps, dtype=np.bool_)
        out[-1] = self.success
        return out

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """Whether the episode was over after each action (S,)."""
        out = np.zeros(self.steps, dtype=np.bool_)
        out[-1] = True
        return out

    def before(self) -> SimFrame:
        """What was seen before every action, a batch of S."""
        return SimFrame.unpack(self.frames[:-1])

    def facts(self) -> dict[str, Any]:
        """What is needed to replay and check the episode, as plain JSON values."""
        return {
            "format": 1,
            "instruction": self.scene.tau.instruction,
            "family": self.scene.tau.family,
            "kind": self.origin.kind,
            "name": self.origin.name,
            "purpose": self.origin.purpose,
            "seed": self.origin.seed,
            "outcome": self.outcome.value,
            "success": self.success,
            "steps": self.steps,
            "states_sha256": states_digest(self.states),
            "scene": self.scene.model_dump(mode="json"),
            "actions": self.actions.tolist(),
        }


def states_digest(states: Array) -> str:
    """sha256 over states (S + 1, n) as little-endian doubles; equal only for equal bits."""
    return hashlib.sha256(np.ascontiguousarray(states, dtype="<f8").tobytes()).hexdigest()


def proprioception(frame: SimFrame) -> npt.NDArray[np.float32]:
    """`STATE_NAMES` of B states, (B, 10)."""
    rot = frame.ee_rot
    parts = (frame.ee_pos, rot[:, :, 0], rot[:, :, 1], frame.gripper_width_m[:, None])
    return np.concatenate(parts, axis=1).astype(np.float32)


def privileged(frame: SimFrame) -> npt.NDArray[np.float32]:
    """`PRIVILEGED_NAMES` of B states, (B, P)."""
    here = frame.present[:, :, None]
    parts = (
        here,
        here * frame.pos,
        here * frame.rot[..., 0],
        here * frame.rot[..., 1],
        here * frame.half_size,
    )
    objects = np.concatenate(parts, axis=2).reshape(frame.batch, -1)
    joint = np.stack((frame.opening, frame.joint_goal), axis=1)
    return np.concatenate((objects, joint), axis=1).astype(np.float32)


def executed(episode: EpisodeData) -> Array:
    """Actions really executed (S, 7), from an episode's chunks."""
    parts = [chunk[: int(n)] for chunk, n in zip(episode.actions, episode.lengths, strict=True)]
    return np.concatenate(parts) if parts else np.zeros((0, ACTION_DIM))


@dataclass
class _Track:
    """What the simulator shows of one scene, step by step."""

    n_positions: int
    states: list[Array] = field(default_factory=list)
    frames: list[Array] = field(default_factory=list)
    outcome: Outcome = Outcome.TIMEOUT


def _simulate(scenes: Sequence[Scene], actions: Sequence[Array], threads: int) -> list[_Track]:
    """Execute actions (S, 7) of every scene one control step at a time."""
    sim = BatchSim(scenes, threads=threads)
    tracks = [_Track(n_positions=int(model.nq)) for model in sim.models]
    for i, row in enumerate(sim.reset().pack()):
        tracks[i].states.append(sim.state(i))
        tracks[i].frames.append(row)
    for t in range(max(len(a) for a in actions)):
        active = np.array(
            [
                t < len(a) and track.outcome is Outcome.TIMEOUT
                for a, track in zip(actions, tracks, strict=True)
            ]
        )
        if not active.any():
            break
        chunk = np.zeros((sim.batch, 1, ACTION_DIM))
        for i in np.flatnonzero(active).tolist():
            chunk[i, 0] = actions[i][t]
        result = sim.step_chunk(chunk, active)
        packed = result.frame.pack()
        for i in np.flatnonzero(active).tolist():
            tracks[i].states.append(sim.state(i))
            tracks[i].frames.append(packed[i])
            if result.success[i]:
                tracks[i].outcome = Outcome.SUCCESS
            elif result.crashed[i]:
                tracks[i].outcome = Outcome.CRASHED
    sim.close()
    return tracks


def replay_states(scene: Scene, actions: Array) -> Array:
    """States [time, qpos, qvel] (S + 1, n) of a scene under actions (S, 7), e.g. exported ones."""
    return np.array(_simulate([scene], [actions], 1)[0].states)


def _same(episode: EpisodeData, track: _Track) -> bool:
    """Whether a simulated episode passes through the very states that were recorded."""
    marks = np.concatenate(([0], np.cumsum(episode.lengths)))
    frames = np.array(track.frames)
    return (
        track.outcome is episode.outcome
        and len(frames) == episode.steps + 1
        and frames.shape[1] == episode.frames.shape[1]
        and np.array_equal(frames[marks], episode.frames)
    )


def record(
    episodes: Sequence[EpisodeData], origins: Sequence[Origin], *, threads: int = 1
) -> Iterator[Recording | NotReproduced]:
    """Simulate episodes again and record them; an error in place of one that differs.

    Crashed episodes must have been left out: they say nothing about whoever acted.
    """
    actions = [executed(episode) for episode in episodes]
    tracks = _simulate([episode.scene for episode in episodes], actions, threads)
    for episode, origin, acts, track in zip(episodes, origins, actions, tracks, strict=True):
        if not _same(episode, track):
            yield NotReproduced(
                f"{origin.name} ({episode.outcome.value} in {episode.steps} steps) comes out as "
                f"{track.outcome.value} in {len(track.frames) - 1} steps, or through other states, "
                "on this version of the simulator; export it with the version that recorded it."
            )
            continue
        yield Recording(
            scene=episode.scene,
            origin=origin,
            outcome=episode.outcome,
            actions=acts,
            states=np.array(track.states),
            n_positions=track.n_positions,
            frames=np.array(track.frames),
            model_xml=portable_xml(scene_xml(episode.scene)),
        )


def with_images(
    recording: Recording, cameras: Sequence[Camera], *, size: tuple[int, int]
) -> Recording:
    """The recording with pictures (S, H, W, 3) of each camera, drawn before every action.

    Raises:
        SimulationError: There is no off-screen OpenGL.
    """
    quality = FAST if max(size) <= FAST_UP_TO else FILM
    pictures: dict[Camera, list[Image]] = {camera: [] for camera in cameras}
    with SceneRenderer(recording.scene, size=size, quality=quality) as renderer:
        for qpos in recording.states[:-1, 1 : 1 + recording.n_positions]:
            for camera in cameras:
                pictures[camera].append(renderer.draw(qpos, camera=camera))
    return replace(recording, images={c: np.array(rows) for c, rows in pictures.items()})
