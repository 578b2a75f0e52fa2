"""Physics backends: one contract, kept by the native rollout and by a plain loop of `mj_step`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mujoco
import numpy as np
import pytest

from coda.sim.engine import BatchSim, compile_scenes
from coda.sim.errors import SimulationError
from coda.sim.frame import Array
from coda.sim.mjcf import PHYSICS_DT_S
from coda.sim.physics import STATE, Index, Physics, RolloutPhysics
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import run_episodes
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits

SCENES = [sample_scene(Splits().wide_program(), np.random.default_rng(s)) for s in range(5)]
MODELS = compile_scenes(SCENES)


class LoopPhysics:
    """The plainest backend that keeps the contract: Python steps one scene after another."""

    def __init__(self, models: Sequence[mujoco.MjModel]) -> None:
        self._models = list(models)
        self.kind: Index = np.zeros(len(self._models), dtype=np.int64)
        self.threads = 1
        sizes = [mujoco.mj_stateSize(model, STATE) for model in models]
        self.states: Array = np.zeros((len(sizes), max(sizes)))
        self.touch: Array = np.zeros((len(sizes), max(m.nsensordata for m in models)))

    def step(self, rows: Index, ctrl: Array, substeps: int) -> None:
        """Advance scenes one by one, each with a fresh solver."""
        for row, command in zip(rows.tolist(), ctrl, strict=True):
            model = self._models[row]
            data = mujoco.MjData(model)
            size = mujoco.mj_stateSize(model, STATE)
            mujoco.mj_setState(model, data, self.states[row, :size], STATE)
            data.ctrl[:] = command
            mujoco.mj_step(model, data, substeps)
            mujoco.mj_getState(model, data, self.states[row, :size], STATE)
            self.touch[row, : model.nsensordata] = data.sensordata

    def branch(self, rows: Index) -> LoopPhysics:
        """A batch of scenes with copies of their states."""
        other = LoopPhysics([self._models[i] for i in rows.tolist()])
        other.states[:] = self.states[rows][:, : other.states.shape[1]]
        return other


BACKENDS: dict[str, Callable[[], Physics]] = {
    "rollout": lambda: RolloutPhysics(MODELS),
    "rollout on 2 threads": lambda: RolloutPhysics(MODELS, threads=2),
    "rollout on 3 threads": lambda: RolloutPhysics(MODELS, threads=3),
    "loop": lambda: LoopPhysics(MODELS),
}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Callable[[], Physics]:
    return BACKENDS[request.param]


def simulated(physics: Physics) -> BatchSim:
    return BatchSim(SCENES, models=MODELS, physics=physics)


def test_grasps_come_out_bit_identical_on_every_backend(backend: Callable[[], Physics]) -> None:
    want = run_episodes(simulated(LoopPhysics(MODELS)), ScriptedPlanner(), max_steps=56)
    have = run_episodes(simulated(backend()), ScriptedPlanner(), max_steps=56)
    assert any(e.frames[-1].sum() for e in want)
    for a, b in zip(want, have, strict=True):
        assert a.frames.tobytes() == b.frames.tobytes()


def test_only_the_rows_asked_for_move(backend: Callable[[], Physics]) -> None:
    sim = simulated(backend())
    sim.reset()
    physics, before = sim.physics, sim.physics.states.copy()
    rows = np.array([3, 1])
    ctrl = np.tile(np.r_[sim.qpos(0)[:7] + 0.02, 0.04, -0.04], (2, 1))
    physics.step(rows, ctrl, 10)
    moved = (physics.states != before).any(axis=1)
    assert moved.tolist() == [False, True, False, True, False]
    np.testing.assert_allclose(physics.states[rows, 0] - before[rows, 0], 10 * PHYSICS_DT_S)


def test_commands_go_to_their_own_rows(backend: Callable[[], Physics]) -> None:
    sim = simulated(backend())
    sim.reset()
    start = sim.physics.states.copy()
    ctrl = np.stack([np.r_[sim.qpos(i)[:7] + 0.01 * i, 0.04, -0.04] for i in range(5)])
    sim.physics.step(np.arange(5), ctrl, 20)
    together = sim.physics.states.copy()
    sim.physics.states[:] = start
    for i in (4, 2, 0, 1, 3):
        sim.physics.step(np.array([i]), ctrl[[i]], 20)
    assert together.tobytes() == sim.physics.states.tobytes()


def test_branches_have_states_of_their_own(backend: Callable[[], Physics]) -> None:
    sim = simulated(backend())
    sim.reset()
    trunk = sim.physics.states.copy()
    branch = sim.physics.branch(np.array([1, 1, 4]))
    width = branch.states.shape[1]
    assert branch.states.tobytes() == trunk[[1, 1, 4]][:, :width].tobytes()
    ctrl = np.tile(np.r_[sim.qpos(1)[:7], 0.04, -0.04], (3, 1))
    branch.step(np.arange(3), ctrl, 10)
    assert branch.states[0].tobytes() == branch.states[1].tobytes()
    assert sim.physics.states.tobytes() == trunk.tobytes()


def test_a_state_that_diverges_stops_its_clock_and_leaves_the_others_alone() -> None:
    physics = RolloutPhysics(MODELS)
    sim = simulated(physics)
    sim.reset()
    physics.states[2, 1 + MODELS[2].nq] = 1e12
    ctrl = np.stack([np.r_[sim.qpos(i)[:7], 0.04, -0.04] for i in range(5)])
    physics.step(np.arange(5), ctrl, 10)
    late = 10 * PHYSICS_DT_S - physics.states[:, 0]
    assert late[2] > PHYSICS_DT_S
    assert np.abs(np.delete(late, 2)).max() < 1e-12
    physics.step(np.array([0]), ctrl[:1], 10)  # the working memory is still good
    assert np.isfinite(physics.states[0]).all()


def test_repeated_rows_are_refused() -> None:
    with pytest.raises(SimulationError, match=r"rows to step repeat: \[1, 1\]"):
        RolloutPhysics(MODELS).step(np.array([1, 1]), np.zeros((2, 9)), 1)


def test_many_resets_leave_no_trace() -> None:
    sim = BatchSim(SCENES[:2], models=MODELS[:2])
    first = sim.reset().pack()
    for _ in range(50):
        sim.reset(settle_steps=1)
    assert sim.reset().pack().tobytes() == first.tobytes()
