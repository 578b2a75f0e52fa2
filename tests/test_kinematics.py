"""Kinematics against MuJoCo and against finite differences."""

from __future__ import annotations

import mujoco
import numpy as np

from coda.sim import kinematics as kin
from coda.sim.families import family
from coda.sim.mjcf import compile_scene

RNG = np.random.default_rng(0)


def postures(count: int) -> np.ndarray:
    """Random joint angles around home (count, 7) [rad]."""
    return np.asarray(kin.HOME_Q) + RNG.uniform(-0.4, 0.4, (count, kin.N_JOINTS))


def test_forward_kinematics_agree_with_mujoco() -> None:
    model = compile_scene(family("pick-place").seed)
    data = mujoco.MjData(model)
    for q in postures(5):
        data.qpos[:7] = q
        mujoco.mj_kinematics(model, data)
        pos, rot, _ = kin.forward(q[None])
        site = model.site("grip").id
        np.testing.assert_allclose(pos[0], data.site_xpos[site], atol=1e-6)
        np.testing.assert_allclose(rot[0], data.site_xmat[site].reshape(3, 3), atol=1e-5)


def test_the_jacobian_agrees_with_finite_differences() -> None:
    q = postures(3)
    pos, rot, jac = kin.forward(q)
    step = 1e-6
    for joint in range(kin.N_JOINTS):
        moved = q.copy()
        moved[:, joint] += step
        pos2, rot2, _ = kin.forward(moved)
        np.testing.assert_allclose((pos2 - pos) / step, jac[:, :3, joint], atol=1e-4)
        turn = kin.rotvec(rot2 @ rot.transpose(0, 2, 1)) / step
        np.testing.assert_allclose(turn, jac[:, 3:, joint], atol=1e-4)


def test_exponential_and_logarithm_are_inverse() -> None:
    vec = RNG.normal(0, 0.8, (20, 3))
    np.testing.assert_allclose(kin.rotvec(kin.exp_rot(vec)), vec, atol=1e-9)
    tiny = np.array([[0.0, 0.0, 0.0], [1e-9, 0.0, 0.0]])
    np.testing.assert_allclose(kin.rotvec(kin.exp_rot(tiny)), tiny, atol=1e-12)


def test_inverse_kinematics_reach_the_workspace() -> None:
    x, y = np.meshgrid(np.linspace(0.32, 0.66, 4), np.linspace(-0.28, 0.28, 4))
    target = np.stack((x.ravel(), y.ravel(), np.full(16, 0.05)), axis=1)
    _, error = kin.solve_ik(target, kin.down_rot(np.linspace(-1.2, 1.2, 16)))
    assert error.max() < 1e-3
