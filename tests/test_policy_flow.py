"""The flow over chunks: its basis, cut chunks, torn files, device and settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from coda.policy.base import PolicyError
from coda.policy.chunks import ACTION_DIM, HORIZON, ChunkBasis, dct_matrix, hold_last
from coda.policy.config import PolicyConfig
from coda.policy.device import DeviceError, resolve_device
from coda.policy.flow import FlowChunkPolicy
from coda.sim.errors import UnknownName
from tests.policy_world import observations, policy


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_cosines_are_orthonormal_and_smooth_chunks_survive() -> None:
    rows = dct_matrix(HORIZON)
    torch.testing.assert_close(rows @ rows.T, torch.eye(HORIZON, dtype=torch.float64))
    basis = ChunkBasis.make(HORIZON, 4, 4)
    assert basis.size == 28
    line = torch.linspace(-0.5, 0.5, HORIZON)[None, :, None].expand(1, HORIZON, ACTION_DIM)
    assert (basis.decode(basis.encode(line)) - line).abs().max() < 0.02
    full = ChunkBasis.make(HORIZON, HORIZON, HORIZON)
    chunk = torch.randn(3, HORIZON, ACTION_DIM, generator=generator())
    torch.testing.assert_close(full.decode(full.encode(chunk)), chunk, rtol=0, atol=1e-5)


def test_the_tail_of_a_cut_chunk_does_not_matter() -> None:
    chunk = torch.randn(2, HORIZON, ACTION_DIM, generator=generator())
    valid = torch.arange(HORIZON).expand(2, -1) < torch.tensor([[3], [HORIZON]])
    held = hold_last(chunk, valid)
    assert torch.equal(held[0, 3:], chunk[0, 2].expand(HORIZON - 3, -1))
    assert torch.equal(held[1], chunk[1])
    other = torch.where(valid.unsqueeze(-1), chunk, torch.full_like(chunk, 9.0))
    model, obs, weight = policy(), observations(2), torch.ones(2)
    losses = [model.loss(obs, c, weight, valid, generator=generator()) for c in (chunk, other)]
    assert torch.equal(losses[0], losses[1])


def test_torn_files_are_refused_in_one_line(tmp_path: Path) -> None:
    model, path = policy(), tmp_path / "p"
    model.save(path)
    (tmp_path / "p.safetensors").write_bytes(b"torn")
    with pytest.raises(PolicyError, match="is not readable"):
        FlowChunkPolicy.load(path)
    (tmp_path / "p.json").write_text("{")
    with pytest.raises(PolicyError, match="is not JSON"):
        FlowChunkPolicy.load(path)


def test_the_device_is_said_and_never_changed_silently() -> None:
    assert resolve_device("cpu").said == "cpu"
    if torch.cuda.is_available():
        assert resolve_device("auto").said.startswith("cuda")
    else:
        assert resolve_device("auto").said == "cpu (auto: torch sees no CUDA device)"
        with pytest.raises(DeviceError, match="use device = 'cpu' or 'auto'"):
            resolve_device("cuda")
    with pytest.raises(UnknownName, match="Did you mean 'cuda'"):
        resolve_device("cude")


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="exceeds horizon"):
        PolicyConfig(horizon=4, arm_coefficients=5)
