"""What the policy sees: relative geometry, symmetric grasps, nearest distractors first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from coda.policy.normalise import Normaliser
from coda.policy.observation import (
    FEATURES,
    OBSERVATION_DIM,
    TEXT_DIM,
    observe,
    observe_vector,
    scale_floor,
)
from coda.sim.frame import SimFrame
from tests.policy_world import successes


def frame() -> SimFrame:
    return SimFrame.unpack(successes()[0].frames)


def column(vector: np.ndarray, name: str) -> np.ndarray:
    start = 0
    for feature, size, _ in FEATURES:
        if feature == name:
            return vector[:, start : start + size]
        start += size
    raise AssertionError(name)


def test_shapes_and_floors() -> None:
    states = frame()
    obs = observe(states, np.zeros((states.batch, TEXT_DIM), np.float32))
    assert obs.vector.shape == (states.batch, OBSERVATION_DIM)
    assert obs.vector.dtype == torch.float32
    assert torch.isfinite(obs.vector).all()
    assert scale_floor().shape == (OBSERVATION_DIM,)
    assert (scale_floor() > 0).all()
    assert obs[1:3].batch == 2
    with pytest.raises(ValueError, match="expected shape"):
        observe(states, np.zeros((1, 3), np.float32))


def test_shifting_everything_changes_the_absolute_position_only() -> None:
    states = frame()
    by = np.array([0.05, -0.03, 0.0])
    moved = replace(
        states,
        ee_pos=states.ee_pos + by,
        command_pos=states.command_pos + by,
        pos=states.pos + by * states.present[:, :, None],
    )
    before, after = observe_vector(states), observe_vector(moved)
    np.testing.assert_allclose(
        column(after, "gripper xy") - column(before, "gripper xy"),
        np.broadcast_to(by[:2], (states.batch, 2)),
        atol=1e-6,
    )
    np.testing.assert_allclose(before[:, 2:], after[:, 2:], atol=1e-6)


def test_a_cube_turned_by_a_quarter_looks_the_same_to_the_grasp() -> None:
    states = frame()[:3]  # on the table: not tilted
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    rot = states.rot.copy()
    rot[:, 0] = quarter @ rot[:, 0]
    turned = observe_vector(replace(states, rot=rot))
    np.testing.assert_allclose(
        column(turned, "target grasp yaw"),
        column(observe_vector(states), "target grasp yaw"),
        atol=1e-3,
    )


def test_distractors_come_nearest_to_the_target_first() -> None:
    states = frame()[:1]
    pos, present, half = states.pos.copy(), states.present.copy(), states.half_size.copy()
    present[0, 4:6] = 1.0
    pos[0, 4] = pos[0, 0] + [0.3, 0.0, 0.0]
    pos[0, 5] = pos[0, 0] + [0.0, 0.1, 0.0]
    half[0, 4:6] = 0.02
    swapped = [0, 1, 2, 3, 5, 4, 6]
    one = replace(states, pos=pos, present=present, half_size=half)
    other = replace(
        states, pos=pos[:, swapped], present=present[:, swapped], half_size=half[:, swapped]
    )
    np.testing.assert_array_equal(observe_vector(one), observe_vector(other))
    vector = observe_vector(one)
    np.testing.assert_allclose(
        column(vector, "distractor 1 from gripper")[0], pos[0, 5] - states.ee_pos[0], atol=1e-6
    )
    assert column(vector, "distractor 3 present")[0, 0] == 0.0
    assert not column(vector, "distractor 3 from gripper").any()


def test_a_factor_that_never_varied_does_not_explode() -> None:
    data = torch.zeros(100, OBSERVATION_DIM)
    norm = Normaliser(OBSERVATION_DIM)
    norm.fit(data, torch.from_numpy(scale_floor()))
    assert norm(data + 0.05).abs().max() <= 5.0 + 1e-5
    x = torch.randn(4, OBSERVATION_DIM) * 0.01
    torch.testing.assert_close(norm.inverse(norm(x)), x)
