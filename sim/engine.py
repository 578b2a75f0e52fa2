"""`BatchSim`: many scenes stepped in chunks on a thread pool, bit-identical for any thread count.

One control step is one vectorised differential IK step for the whole batch, then
`mj_step` (which releases the interpreter lock) for each scene.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim import kinematics
from coda.sim.errors import SimulationError
from coda.sim.frame import Array, SimFrame
from coda.sim.mjcf import PHYSICS_DT_S, Layout, compile_scene, layout
from coda.sim.predicates import Bool, holds
from coda.sim.recorder import Recorder
from coda.sim.scene import Scene

CONTROL_HZ = 20.0
SUBSTEPS = round(1.0 / (CONTROL_HZ * PHYSICS_DT_S))
"""Physics steps in one control step; the clocks divide exactly."""
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
FLOOR_M = 0.004
"""Lowest commanded height of the finger tips above the table [m]."""

T = TypeVar("T")
K = TypeVar("K")

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


@dataclass(frozen=True)
class Snapshot:
    """Full state of every scene of a batch; `restore` continues bit-identically."""

    physics: tuple[Array, ...]
    """MuJoCo's integration state of every scene."""
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
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        *,
        threads: int = 1,
        models: Sequence[mujoco.MjModel] | None = None,
    ) -> None:
        if not scenes:
            raise SimulationError("a batch needs at least one scene.")
        self.scenes = tuple(scenes)
        self.batch = len(self.scenes)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._threads = threads
        if models is None:
            models = self._map_list(lambda i: compile_scene(self.scenes[i]))
        self.models = tuple(models)
        self._layouts = tuple(layout(m, s) for m, s in zip(self.models, self.scenes, strict=True))
        self._datas = tuple(mujoco.MjData(m) for m in self.models)
        self._recorder = Recorder(self.models, self._datas, self._layouts, self.scenes)
        self._ctrl = tuple(d.ctrl for d in self._datas)
        self._q_cmd = np.zeros((self.batch, kinematics.N_JOINTS))
        self._hold = np.zeros(self.batch, dtype=np.int64)
        self._verifiers = _group([s.nu.terms for s in self.scenes])
        self._hold_steps = np.array(
            [max(1, int(np.ceil(s.nu.hold_s * CONTROL_HZ - 1e-9))) for s in self.scenes]
        )

    def close(self) -> None:
        """Stop the worker threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def data(self, index: int) -> mujoco.MjData:
        """MuJoCo's state of one scene, for rendering and the validity gate."""
        return self._datas[index]

    def qpos(self, index: int) -> Array:
        """Generalised positions (nq,) of one scene, a copy."""
        return self._datas[index].qpos.copy()

    def layout(self, index: int) -> Layout:
        """Where one scene's things are in its model."""
        return self._layouts[index]

    def _map_list(self, f: Callable[[int], T]) -> list[T]:
        if self._pool is None:
            return [f(i) for i in range(self.batch)]
        return list(self._pool.map(f, range(self.batch)))

    def _each(self, f: Callable[[int], None], indices: npt.NDArray[np.int64]) -> None:
        """Run `f` on every index, in contiguous slices on the pool."""

        def part(share: npt.NDArray[np.int64]) -> None:
            for i in share.tolist():
                f(i)

        if self._pool is None or len(indices) == 1:
            part(indices)
            return
        shares = np.array_split(indices, min(self._threads, len(indices)))
        for done in [self._pool.submit(part, share) for share in shares]:
            done.result()

    def frame(self) -> SimFrame:
        """Present states."""
        return self._recorder.frame()

    def reset(self, *, settle_steps: int = SETTLE_STEPS) -> SimFrame:
        """Start every scene: arm at its start pose, fingers open, objects at rest."""
        start = np.array([s.sigma.robot.xyz for s in self.scenes])
        rot = kinematics.down_rot([s.sigma.robot.yaw for s in self.scenes])
        self._q_cmd, _ = kinematics.solve_ik(start, rot)
        rec = self._recorder
        rec.command_pos[:], rec.command_rot[:] = start, rot
        rec.gripper_command[:] = -1.0
        self._hold[:] = 0
        everyone = np.arange(self.batch)

        def settle(i: int) -> None:
            model, data, lay = self.models[i], self._datas[i], self._layouts[i]
            mujoco.mj_resetData(model, data)
            data.qpos[: kinematics.N_JOINTS] = self._q_cmd[i]
            data.qpos[lay.fingers[0]], data.qpos[lay.fingers[1]] = 0.04, -0.04
            self._set_ctrl(i)
            mujoco.mj_step(model, data, SUBSTEPS * settle_steps)
            data.time = 0.0
            rec.read(i, first=True)

        self._each(settle, everyone)
        return self.frame()

    def _set_ctrl(self, i: int) -> None:
        ctrl = self._ctrl[i]
        ctrl[: kinematics.N_JOINTS] = self._q_cmd[i]
        half = 0.02 * (1.0 - self._recorder.gripper_command[i])
        ctrl[7], ctrl[8] = half, -half

    def _command(self, action: Array, idx: npt.NDArray[np.int64]) -> None:
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

    def _physics(self, i: int) -> None:
        self._set_ctrl(i)
        mujoco.mj_step(self.models[i], self._datas[i], SUBSTEPS)
        self._recorder.read(i)

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
            self._each(self._physics, idx)
            steps[idx] += 1
            bad = idx[~self._recorder.finite(idx)]
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

    def _verify(self, idx: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if not idx.size:
            return idx
        frame = self.frame()
        for terms, members in self._verifiers:
            chosen = np.intersect1d(members, idx, assume_unique=True)
            if chosen.size:
                now = holds(terms, frame[chosen])
                self._hold[chosen] = np.where(now, self._hold[chosen] + 1, 0)
        return idx[self._hold[idx] >= self._hold_steps[idx]]

    def snapshot(self) -> Snapshot:
        """Copy the full state of every scene."""
        physics = []
        for model, data in zip(self.models, self._datas, strict=True):
            state = np.empty(mujoco.mj_stateSize(model, _STATE))
            mujoco.mj_getState(model, data, state, _STATE)
            physics.append(state)
        return Snapshot(tuple(physics), self._q_cmd.copy(), self._hold.copy(), self.frame().pack())

    def restore(self, snapshot: Snapshot, rows: Sequence[int] | None = None) -> SimFrame:
        """Return to a snapshot; scene b takes the snapshot's row ``rows[b]`` (b where None)."""
        order = list(range(self.batch)) if rows is None else list(rows)
        if len(order) != self.batch:
            raise SimulationError(f"{len(order)} rows for a batch of {self.batch} scenes.")
        for b, row in enumerate(order):
            mujoco.mj_setState(self.models[b], self._datas[b], snapshot.physics[row], _STATE)
        self._q_cmd[:] = snapshot.q_cmd[order]
        self._hold[:] = snapshot.hold[order]
        self._recorder.load(SimFrame.unpack(snapshot.frame[order]))
        return self.frame()

    def branch(self, copies: int) -> BatchSim:
        """A batch of `copies` states of every scene, scene-major, sharing models and threads.

        Restore it with ``rows = np.repeat(range(B), copies)`` of a snapshot of this batch.
        """
        order = [i for i in range(self.batch) for _ in range(copies)]
        branched = BatchSim([self.scenes[i] for i in order], models=[self.models[i] for i in order])
        branched._pool, branched._threads = self._pool, self._threads
        return branched


def _group(keys: Sequence[K]) -> list[tuple[K, npt.NDArray[np.int64]]]:
    groups: dict[K, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return [(key, np.array(members)) for key, members in groups.items()]
