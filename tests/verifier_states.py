"""Perturbed states around success: near the goal, beside it, moving, tilted, held, half open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim import kinematics
from coda.sim.engine import ACTION_DIM, BatchSim
from coda.sim.families import FAMILIES
from coda.sim.frame import Array, SimFrame
from coda.sim.gate_goal import CLEAR, goal_sim, reach_goal
from coda.sim.mjcf import compile_scene
from coda.sim.predicates import grasp_point, grasp_yaw_error
from coda.sim.roles import ROLES
from coda.sim.sampling import sample_scene
from coda.sim.scene import RobotStart, Scene
from coda.sim.splits import Splits
from tests.verifier_truth import Truth

STEPS = 14
"""Control steps that every state is followed for."""
KINDS = ("goal", "jitter", "beside", "moving", "tilted", "start", "held", "around")
"""How a state differs from the goal; `held` closes the fingers on what is to be let go."""


@dataclass(frozen=True)
class Perturbed:
    """A batch of states, ready to be followed."""

    sim: BatchSim
    kinds: tuple[str, ...]
    close: npt.NDArray[np.bool_]
    """Where the fingers close, (B,)."""


def scenes_of(family: str, count: int) -> list[Scene]:
    """The seed scene of every task, and scenes from the whole range."""
    scenes = [task.seed for task in FAMILIES[family].tasks.values()]
    program = Splits(family).wide_program()
    draws = (sample_scene(program, np.random.default_rng(k)) for k in range(count))
    return (scenes + list(draws))[: max(count, len(scenes))]


def perturbed(family: str, count: int, *, models: int, seed: int = 0) -> Perturbed:
    """`count` states of a family's tasks, from `models` scenes or one per task."""
    rng = np.random.default_rng(seed)
    bases = scenes_of(family, models)
    compiled = [compile_scene(scene) for scene in bases]
    goal = goal_sim(bases, compiled)
    goals = reach_goal(goal)
    states = [goal.state(i) for i in range(len(bases))]
    picks = [k % len(bases) for k in range(count)]
    kinds = tuple(KINDS[(k // len(bases)) % len(KINDS)] for k in range(count))
    scenes, starts = [], []
    for base, kind in zip(picks, kinds, strict=True):
        state = _state(goal, goals, base, states[base], kind, rng)
        frame = goal.set_state(base, state)
        robot = _hand(bases[base], frame[[base]], kind, rng)
        goal.set_state(base, states[base])
        sigma = bases[base].sigma.model_copy(update={"robot": robot})
        scenes.append(bases[base].model_copy(update={"sigma": sigma}))
        starts.append(state)
    sim = BatchSim(scenes, models=[compiled[base] for base in picks])
    sim.reset(settle_steps=0)
    arm = slice(1, 3 + kinematics.N_JOINTS)
    for i, state in enumerate(starts):
        state[arm] = sim.state(i)[arm]
        sim.set_state(i, state)
    return Perturbed(sim, kinds, np.array([kind == "held" for kind in kinds]))


def _subject(scene: Scene) -> str:
    return "handle" if scene.tau.goal.reference is None else "target"


def _hand(scene: Scene, frame: SimFrame, kind: str, rng: np.random.Generator) -> RobotStart:
    """The hand at the grasp where the state wants it there, else out of the way."""
    if kind not in ("held", "around"):
        return CLEAR
    role = "receptacle" if "support" in scene.roles and rng.random() < 0.5 else _subject(scene)
    point = grasp_point(frame, role)[0]  # type: ignore[arg-type]
    yaw = np.arctan2(frame.ee_rot[0, 1, 0], frame.ee_rot[0, 0, 0])
    yaw += grasp_yaw_error(frame, role)[0]  # type: ignore[arg-type]
    return RobotStart(
        xyz=tuple(point.tolist()), yaw=float(np.remainder(yaw + np.pi, 2 * np.pi) - np.pi)
    )


def _state(
    sim: BatchSim, goals: SimFrame, i: int, done: Array, kind: str, rng: np.random.Generator
) -> Array:
    """A state of one scene that differs from its goal state as `kind` says."""
    state, lay = done.copy(), sim.layout(i)
    if kind == "start":
        state = lay.start.copy()
        return state
    if lay.joint_columns and (kind != "goal" or rng.random() < 0.5):
        q, v = lay.joint_columns
        limit = 0.15 if goals.joint_goal[i] > 0.5 else 0.06
        off = rng.uniform(0.0, 2.5) * limit if rng.random() < 0.8 else rng.uniform(0.0, 1.0)
        opening = abs(float(goals.joint_goal[i]) - min(off, 1.0))
        shift = (opening - float(goals.joint_goal[i])) * float(goals.joint_span[i])
        state[q] += shift
        state[v] = rng.normal() * 0.1 * (kind == "moving")
        if not lay.free or sim.scenes[i].tau.goal.relation in ("open", "closed"):
            return state
        for role, fq, _ in lay.free:
            if ROLES[role] == "target":  # what lies in a drawer moves with it
                state[fq : fq + 3] += goals.joint_axis[i] * shift
    seats = goals.seat_half[i].max(axis=1)
    for role, q, v in lay.free:
        if ROLES[role].startswith("distractor"):
            continue
        if kind in ("jitter", "held", "around"):
            state[q : q + 2] += rng.uniform(-0.004, 0.004, size=2)
        elif kind in ("beside", "moving", "tilted"):
            reach = 1.6 * max(float(seats[ROLES.index("receptacle")]), 0.02)
            state[q : q + 2] += rng.uniform(-reach, reach, size=2)
            state[q + 2] += rng.uniform(0.0, 0.03)
        if kind == "moving":
            state[v : v + 3] += rng.normal(size=3) * 0.15
            state[v + 3 : v + 6] += rng.normal(size=3) * 1.5
        if kind == "tilted":
            tilt = rng.uniform(-0.4, 0.4, size=3)
            quat = np.array([1.0, *(0.5 * tilt)])
            product = np.zeros(4)
            mujoco.mju_mulQuat(product, quat / np.linalg.norm(quat), state[q + 3 : q + 7])
            state[q + 3 : q + 7] = product
    return state


@dataclass(frozen=True)
class Followed:
    """What the verifier said and what was true, after every control step."""

    said: npt.NDArray[np.bool_]
    """The verifier at each instant, (T, B)."""
    true: npt.NDArray[np.bool_]
    won: npt.NDArray[np.bool_]
    """Success: the verifier has held for its time, (T, B)."""
    kinds: tuple[str, ...]
    scenes: Sequence[Scene]


def follow(start: Perturbed, steps: int = STEPS) -> Followed:
    """Hold still, fingers open or closed, and read every state twice."""
    sim = start.sim
    action = np.zeros((sim.batch, 1, ACTION_DIM))
    action[:, 0, 6] = np.where(start.close, 1.0, -1.0)
    said, true, won = [], [], []
    for _ in range(steps):
        before = [sim.state(i) for i in range(sim.batch)]
        result = sim.step_chunk(action)
        said.append(sim.verified_now())
        true.append(np.array([Truth(sim, i, before[i]).success() for i in range(sim.batch)]))
        won.append(result.success)
    return Followed(np.array(said), np.array(true), np.array(won), start.kinds, sim.scenes)
