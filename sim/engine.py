"""`BatchSim`: many scenes stepped in chunks, bit-identical for any batch and thread count.

A batch is cut into pieces that take turns on the threads. A turn is one control step of a piece's
scenes: differential IK, physics, reading the states, all three outside Python's lock, and then the
verifiers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim import kinematics
from coda.sim.errors import SimulationError
from coda.sim.frame import FRAME_SIZE, Array, SimFrame
from coda.sim.layout import Layout, layout
from coda.sim.mjcf import PHYSICS_DT_S, compile_scene
from coda.sim.physics import STATE, Index, Physics, RolloutPhysics
from coda.sim.predicates import Bool, holds
from coda.sim.recorder import Recorder
from coda.sim.scene import Scene
from coda.sim.turns import take_turns

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
SETTLE_STEPS = 6
"""Control steps that a reset lets the scene settle for."""
FINGER_OPEN_M = 0.04
"""Position of each finger when open [m]."""
FLOOR_M = 0.004
"""Lowest commanded height of the finger tips above the table [m]."""
SCALES = (POS_SCALE_M, ROT_SCALE_RAD, LEASH_M, FLOOR_M)
"""In the order in which `kernels.command` takes them."""
PIECES_PER_THREAD = 2
"""A batch is cut into so many pieces for each thread, so that none waits long for the others."""
MIN_PIECE = 5
"""Pieces are no smaller than so many scenes unless a thread would have none."""


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


class _Run:
    """A chunk on its way: pieces write to their own scenes' rows."""

    def __init__(self, actions: Array, *, keep: bool) -> None:
        batch, length, _ = actions.shape
        self.actions = actions
        self.steps = np.zeros(batch, dtype=np.int64)
        self.success = np.zeros(batch, dtype=np.bool_)
        self.crashed = np.zeros(batch, dtype=np.bool_)
        self.kept: Array = np.empty((length if keep else 0, batch, FRAME_SIZE))
        """Packed frames after every control step, where asked for."""


@dataclass
class _Piece:
    """Scenes that are stepped together until each stops."""

    rows: Index
    done: int = 0
    """Control steps."""


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
        self._scales = np.array(SCALES)
        self._hold = np.zeros(self.batch, dtype=np.int64)
        self._verifiers = list(dict.fromkeys(s.nu.terms for s in self.scenes))
        numbers = {terms: number for number, terms in enumerate(self._verifiers)}
        self._verifier = np.array([numbers[s.nu.terms] for s in self.scenes])
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
        live, states = self._recorder.live, self.physics.states
        live.command_pos[:], live.command_rot[:] = start, rot
        live.gripper_command[:] = -1.0
        self._hold[:] = 0
        for i, lay in enumerate(self._layouts):
            states[i, : len(lay.start)] = lay.start
        arm = kinematics.N_JOINTS
        states[:, 1 : 1 + arm] = self._q_cmd
        states[:, 1 + arm], states[:, 2 + arm] = FINGER_OPEN_M, -FINGER_OPEN_M
        everyone = np.arange(self.batch)
        if settle_steps:
            self._settle(everyone, self._substeps * settle_steps)
        states[:, 0] = 0.0
        self._recorder.read(everyone, first=True)
        return self.frame()

    def _settle(self, rows: Index, steps: int) -> None:
        """Physics steps of scenes `rows` under their present commands."""

        def turn(piece: Index) -> bool:
            self.physics.step(piece, self._ctrl(piece), steps)
            return False

        pieces = [functools.partial(turn, piece) for piece in self._pieces(rows)]
        take_turns(pieces, self.physics.threads)

    def _pieces(self, rows: Index) -> list[Index]:
        """Scenes `rows` in pieces of about one size, with like scenes side by side."""
        threads = self.physics.threads
        if threads == 1:
            return [rows]
        order = np.lexsort((rows, self.physics.kind[rows], self._verifier[rows]))
        count = min(PIECES_PER_THREAD * threads, max(threads, len(rows) // MIN_PIECE))
        return np.array_split(rows[order], min(len(rows), count))

    def _ctrl(self, rows: Index) -> Array:
        """Commands (n, 9): joint angles, then the two finger positions."""
        half = 0.5 * FINGER_OPEN_M * (1.0 - self._recorder.live.gripper_command[rows])
        return np.concatenate((self._q_cmd[rows], half[:, None], -half[:, None]), axis=1)

    def _command(self, action: Array, idx: Index) -> Array:
        """Move the commanded poses by normalised actions (n, 7); commands (n, 9) for physics."""
        self._recorder.command(idx, action, self._scales)
        self._recorder.descend(idx, self._q_cmd)
        return self._ctrl(idx)

    def _advance(self, idx: Index, action: Array) -> Bool:
        """One control step of scenes `idx` (n,); whether each is still sound, (n,)."""
        before = self._recorder.live.time_s[idx]
        self.physics.step(idx, self._command(action, idx), self._substeps)
        sound = self._recorder.read(idx)
        ran = self.physics.states[idx, 0] - before > (self._substeps - 0.5) * self._dt_s
        return np.asarray(sound & ran)

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
        run = _Run(np.ascontiguousarray(clipped), keep=keep)
        pieces = self._pieces(np.flatnonzero(live)) if live.any() and actions.shape[1] else []
        turns = [functools.partial(self._turn, run, _Piece(rows)) for rows in pieces]
        take_turns(turns, self.physics.threads)
        packed = self._recorder.packed
        for h in range(len(run.kept)):  # scenes that were not stepped any more
            still = run.steps <= h
            run.kept[h, still] = packed[still]
        frames = tuple(SimFrame.unpack(kept) for kept in run.kept[: run.steps.max()])
        return ChunkResult(self.frame(), run.steps, run.success, run.crashed, frames)

    def _turn(self, run: _Run, piece: _Piece) -> bool:
        """One control step of a piece of a chunk; whether there is another."""
        idx, h = piece.rows, piece.done
        sound = self._advance(idx, run.actions[idx, h])
        run.steps[idx] += 1
        run.crashed[idx[~sound]] = True
        piece.rows = idx[sound]
        won = self._verify(piece.rows)
        run.success[piece.rows[won]] = True
        piece.rows = piece.rows[~won]
        if len(run.kept):
            run.kept[h, idx] = self._recorder.packed[idx]
        piece.done += 1
        return bool(piece.rows.size) and piece.done < run.actions.shape[1]

    def verified_now(self) -> Bool:
        """Truth (B,) of each scene's verifier in the present state, without its settle time."""
        return self._holds(np.arange(self.batch))

    def _holds(self, idx: Index) -> Bool:
        """Truth (n,) of the verifiers of scenes `idx` in the present state."""
        result = np.zeros(len(idx), dtype=np.bool_)
        numbers = self._verifier[idx]
        for number in set(numbers.tolist()):
            mine = numbers == number
            result[mine] = holds(self._verifiers[number], self._recorder.chosen(idx[mine]))
        return result

    def _verify(self, idx: Index) -> Bool:
        """Whether the verifier of each of scenes `idx` has held for its settle time, (n,)."""
        held = np.where(self._holds(idx), self._hold[idx] + 1, 0)
        self._hold[idx] = held
        return np.asarray(held >= self._hold_steps[idx])

    def snapshot(self) -> Snapshot:
        """Copy the full state of every scene."""
        states = self.physics.states.copy()
        return Snapshot(states, self._q_cmd.copy(), self._hold.copy(), self._recorder.packed.copy())

    def restore(self, snapshot: Snapshot, rows: Sequence[int] | None = None) -> SimFrame:
        """Return to a snapshot; scene b takes the snapshot's row ``rows[b]`` (b where None)."""
        order = np.arange(self.batch) if rows is None else np.asarray(rows, dtype=np.int64)
        if len(order) != self.batch:
            raise SimulationError(f"{len(order)} rows for a batch of {self.batch} scenes.")
        width = min(self.physics.states.shape[1], snapshot.physics.shape[1])
        self.physics.states[:, :width] = snapshot.physics[order][:, :width]
        self._q_cmd[:] = snapshot.q_cmd[order]
        self._hold[:] = snapshot.hold[order]
        self._recorder.packed[:] = snapshot.frame[order]
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
