"""`BatchSim`: many scenes stepped in chunks, bit-identical for any batch and thread count.

One control step is one vectorised differential IK step for the whole batch, one native call that
steps the physics of every scene, and one vectorised reading of the states.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim import kinematics
from coda.sim.errors import SimulationError
from coda.sim.frame import Array, SimFrame
from coda.sim.layout import Layout, layout
from coda.sim.mjcf import PHYSICS_DT_S, compile_scene
from coda.sim.physics import STATE, Index, Physics, RolloutPhysics
from coda.sim.predicates import Bool, holds
from coda.sim.recorder import Recorder
from coda.sim.scene import Scene

CONTROL_HZ = 20.0
CHUNK = 8
"""Default chunk length H [control steps]."""
ACTION_DIM = 7
POS_SCALE_M = 0.05
"""Displacement of a full action [m]."""
ROT_SCALE_RAD = 0.5
"""Rotation of a full action [rad]."""
LEASH_M = 0.06
"""Furthest that the commanded pose may run ahead of the real one [m]."""
MAX_JOINT_STEP_RAD = 0.12
"""Fastest joint motion in one control step [rad]."""
SETTLE_STEPS = 6
"""Control steps that a reset lets the scene settle for."""
FINGER_OPEN_M = 0.04
"""Position of each finger when open [m]."""
FLOOR_M = 0.004
"""Lowest commanded height of the finger tips above the table [m]."""

K = TypeVar("K")


def substeps(control_hz: float, dt_s: float) -> int:
    """Physics steps in one control step. Raises `SimulationError` if the clocks do not divide."""
    ratio = 1.0 / (control_hz * dt_s)
    steps = round(ratio)
    if steps < 1 or abs(ratio - steps) > 1e-6:
        raise SimulationError(
            f"control at {control_hz:g} Hz is {ratio:.3f} physics steps of {dt_s:g} s; "
            "choose a time step that divides it into a whole number."
        )
    return steps


@dataclass(frozen=True)
class Snapshot:
    """Full state of every scene of a batch; `restore` continues bit-identically."""

    physics: Array
    """Physics states (B, S)."""
    q_cmd: Array
    """Commanded joint angles (B, 7) [rad]."""
    hold: npt.NDArray[np.int64]
    """Control steps that each verifier has held for, (B,)."""
    frame: Array
    """Packed frames (B, F)."""


@dataclass(frozen=True)
class ChunkResult:
    """What a chunk did."""

    frame: SimFrame
    """States after the chunk."""
    steps: npt.NDArray[np.int64]
    """Control steps really executed, (B,), at most H; 0 where inactive."""
    success: Bool
    """The verifier has held for its settle time, (B,)."""
    crashed: Bool
    """Non-finite state, (B,): an outcome of its own, never a policy's failure."""
    frames: tuple[SimFrame, ...]
    """State after every control step, where asked for."""


class BatchSim:
    """A batch of scenes with their own models and states.

    Args:
        scenes: B scenes.
        threads: Worker threads for physics.
        models: Compiled models to share (one a scene); compiled here where None.
        physics: Backend that holds the states; MuJoCo's native rollout where None.
        dt_s: Physics time step of models compiled here [s]; control steps are a multiple of it.
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        *,
        threads: int = 1,
        models: Sequence[mujoco.MjModel] | None = None,
        physics: Physics | None = None,
        dt_s: float = PHYSICS_DT_S,
    ) -> None:
        if not scenes:
            raise SimulationError("a batch needs at least one scene.")
        self.scenes = tuple(scenes)
        if models is None:
            models = compile_scenes(scenes, threads=threads)
            for model in models:
                model.opt.timestep = dt_s
        self.models = tuple(models)
        lays = [layout(m, s) for m, s in zip(self.models, self.scenes, strict=True)]
        self._set_up(lays, physics or RolloutPhysics(self.models, threads=threads))

    def _set_up(self, layouts: Sequence[Layout], physics: Physics) -> None:
        self.batch = len(self.scenes)
        self._dt_s = float(self.models[0].opt.timestep)
        self._substeps = substeps(CONTROL_HZ, self._dt_s)
        self._layouts, self.physics = tuple(layouts), physics
        self._recorder = Recorder(layouts, physics, control_dt_s=1.0 / CONTROL_HZ)
        self._q_cmd = np.zeros((self.batch, kinematics.N_JOINTS))
        self._hold = np.zeros(self.batch, dtype=np.int64)
        self._verifiers = _group([s.nu.terms for s in self.scenes])
        self._hold_steps = np.array(
            [max(1, int(np.ceil(s.nu.hold_s * CONTROL_HZ - 1e-9))) for s in self.scenes]
        )

    def close(self) -> None:
        """Drop the states. Worker threads are shared by all batches and end with the process."""
        self.physics.states = np.zeros((0, 0))

    def data(self, index: int) -> mujoco.MjData:
        """MuJoCo's view of one scene's present state, a copy with everything derived from it."""
        model = self.models[index]
        data = mujoco.MjData(model)
        mujoco.mj_setState(model, data, self._state(index), STATE)
        data.ctrl[:] = self._ctrl(np.array([index]))[0]
        mujoco.mj_forward(model, data)
        return data

    def _state(self, index: int) -> Array:
        return self.physics.states[index, : 1 + self.models[index].nq + self.models[index].nv]

    def qpos(self, index: int) -> Array:
        """Generalised positions (nq,) of one scene, a copy."""
        return self._state(index)[1 : 1 + self.models[index].nq].copy()

    def set_state(self, index: int, state: Array) -> SimFrame:
        """Put one scene into a state (1 + nq + nv,): time, qpos, qvel. Contacts follow a step."""
        self._state(index)[:] = state
        self._recorder.read(np.array([index]), first=True)
        return self.frame()

    def state(self, index: int) -> Array:
        """State (1 + nq + nv,) of one scene, a copy: time, qpos, qvel."""
        return self._state(index).copy()

    def layout(self, index: int) -> Layout:
        """Where one scene's things are in its model."""
        return self._layouts[index]

    def frame(self) -> SimFrame:
        """Present states."""
        return self._recorder.frame()

    def reset(self, *, settle_steps: int = SETTLE_STEPS) -> SimFrame:
        """Start every scene: arm at its start pose, fingers open, objects at rest."""
        start = np.array([s.sigma.robot.xyz for s in self.scenes])
        rot = kinematics.down_rot([s.sigma.robot.yaw for s in self.scenes])
        self._q_cmd, _ = kinematics.solve_ik(start, rot)
        rec, states = self._recorder, self.physics.states
        rec.command_pos[:], rec.command_rot[:] = start, rot
        rec.gripper_command[:] = -1.0
        self._hold[:] = 0
        for i, lay in enumerate(self._layouts):
            states[i, : len(lay.start)] = lay.start
        arm = kinematics.N_JOINTS
        states[:, 1 : 1 + arm] = self._q_cmd
        states[:, 1 + arm], states[:, 2 + arm] = FINGER_OPEN_M, -FINGER_OPEN_M
        everyone = np.arange(self.batch)
        if settle_steps:
            self.physics.step(everyone, self._ctrl(everyone), self._substeps * settle_steps)
        states[:, 0] = 0.0
        rec.read(everyone, first=True)
        return self.frame()

    def _ctrl(self, rows: Index) -> Array:
        """Commands (n, 9): joint angles, then the two finger positions."""
        half = 0.5 * FINGER_OPEN_M * (1.0 - self._recorder.gripper_command[rows])
        return np.concatenate((self._q_cmd[rows], half[:, None], -half[:, None]), axis=1)

    def _command(self, action: Array, idx: Index) -> None:
        """Move the commanded poses by normalised actions (n, 7) and solve one IK step."""
        rec = self._recorder
        pos = rec.command_pos[idx] + POS_SCALE_M * action[:, :3]
        lead = pos - rec.ee_pos[idx]
        reach = np.sqrt((lead * lead).sum(axis=1))
        factor = np.minimum(1.0, LEASH_M / np.maximum(reach, 1e-9))
        pos = rec.ee_pos[idx] + lead * factor[:, None]
        pos[:, 2] = np.maximum(pos[:, 2], FLOOR_M)
        rec.command_pos[idx] = pos
        turn = kinematics.exp_rot(ROT_SCALE_RAD * action[:, 3:6])
        rec.command_rot[idx] = turn @ rec.command_rot[idx]
        grip = action[:, 6]
        rec.gripper_command[idx] = np.where(grip == 0, rec.gripper_command[idx], np.sign(grip))
        self._q_cmd[idx] = kinematics.ik_step(
            self._q_cmd[idx],
            rec.command_pos[idx],
            rec.command_rot[idx],
            max_step_rad=MAX_JOINT_STEP_RAD,
        )

    def _advance(self, idx: Index) -> Index:
        """One control step of scenes `idx`; returns those whose state broke."""
        states, before = self.physics.states, self.physics.states[idx, 0].copy()
        self.physics.step(idx, self._ctrl(idx), self._substeps)
        self._recorder.read(idx)
        ran = states[idx, 0] - before > (self._substeps - 0.5) * self._dt_s
        return np.asarray(idx[~(self._recorder.finite(idx) & ran)])

    def step_chunk(
        self, actions: Array, active: Bool | None = None, *, keep: bool = False
    ) -> ChunkResult:
        """Execute action chunks open loop; a scene stops at success or a crash.

        Args:
            actions: (B, H, 7) normalised: position/0.05 m, axis-angle/0.5 rad in the base
                frame, gripper: below 0 opens, above 0 closes, 0 leaves it (as robosuite's
                Panda gripper takes only the sign). Clipped to [-1, 1].
            active: Scenes to step, (B,); all where None.
            keep: Also return the state after every control step.
        """
        if actions.ndim != 3 or actions.shape[0] != self.batch or actions.shape[2] != ACTION_DIM:
            raise SimulationError(
                f"actions have shape {actions.shape}; expected ({self.batch}, H, {ACTION_DIM})."
            )
        live = np.ones(self.batch, dtype=np.bool_) if active is None else active.copy()
        clipped = np.clip(np.nan_to_num(actions, nan=0.0), -1.0, 1.0)
        steps = np.zeros(self.batch, dtype=np.int64)
        success = np.zeros(self.batch, dtype=np.bool_)
        crashed = np.zeros(self.batch, dtype=np.bool_)
        frames: list[SimFrame] = []
        for h in range(actions.shape[1]):
            idx = np.flatnonzero(live)
            if not idx.size:
                break
            self._command(clipped[idx, h], idx)
            bad = self._advance(idx)
            steps[idx] += 1
            crashed[bad] = True
            live[bad] = False
            won = self._verify(np.flatnonzero(live))
            success[won] = True
            live[won] = False
            if keep:
                frames.append(self.frame())
        return ChunkResult(self.frame(), steps, success, crashed, tuple(frames))

    def verified_now(self) -> Bool:
        """Truth (B,) of each scene's verifier in the present state, without its settle time."""
        frame = self.frame()
        result = np.zeros(self.batch, dtype=np.bool_)
        for terms, members in self._verifiers:
            result[members] = holds(terms, frame[members])
        return result

    def _verify(self, idx: Index) -> Index:
        """Those of scenes `idx` whose verifier has held for its settle time."""
        mine = np.zeros(self.batch, dtype=np.bool_)
        mine[idx] = True
        for terms, members in self._verifiers:
            chosen = members[mine[members]]
            if chosen.size:
                now = holds(terms, self._recorder.frame(chosen))
                self._hold[chosen] = np.where(now, self._hold[chosen] + 1, 0)
        return np.asarray(idx[self._hold[idx] >= self._hold_steps[idx]])

    def snapshot(self) -> Snapshot:
        """Copy the full state of every scene."""
        states = self.physics.states.copy()
        return Snapshot(states, self._q_cmd.copy(), self._hold.copy(), self.frame().pack())

    def restore(self, snapshot: Snapshot, rows: Sequence[int] | None = None) -> SimFrame:
        """Return to a snapshot; scene b takes the snapshot's row ``rows[b]`` (b where None)."""
        order = np.arange(self.batch) if rows is None else np.asarray(rows, dtype=np.int64)
        if len(order) != self.batch:
            raise SimulationError(f"{len(order)} rows for a batch of {self.batch} scenes.")
        width = min(self.physics.states.shape[1], snapshot.physics.shape[1])
        self.physics.states[:, :width] = snapshot.physics[order][:, :width]
        self._q_cmd[:] = snapshot.q_cmd[order]
        self._hold[:] = snapshot.hold[order]
        self._recorder.load(SimFrame.unpack(snapshot.frame[order]))
        return self.frame()

    def branch(self, copies: int) -> BatchSim:
        """A batch of `copies` states of every scene, scene-major, sharing models and threads.

        Restore it with ``rows = np.repeat(range(B), copies)`` of a snapshot of this batch.
        """
        order = np.repeat(np.arange(self.batch), copies)
        other = BatchSim.__new__(BatchSim)
        other.scenes = tuple(self.scenes[i] for i in order.tolist())
        other.models = tuple(self.models[i] for i in order.tolist())
        lays = [self._layouts[i] for i in order.tolist()]
        other._set_up(lays, self.physics.branch(order))
        return other


def compile_scenes(scenes: Sequence[Scene], *, threads: int = 1) -> list[mujoco.MjModel]:
    """Compiled models of scenes; one record given several times shares one."""
    unique = {id(scene): scene for scene in scenes}
    with ThreadPoolExecutor(max(1, threads)) as pool:
        models = dict(zip(unique, pool.map(compile_scene, unique.values()), strict=True))
    return [models[id(scene)] for scene in scenes]


def _group(keys: Sequence[K]) -> list[tuple[K, npt.NDArray[np.int64]]]:
    groups: dict[K, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return [(key, np.array(members)) for key, members in groups.items()]
