"""The flow chunk policy: one contract, determinism, files, masking, and that it can learn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from coda.policy.base import PolicyError
from coda.policy.chunks import ACTION_DIM, HORIZON, ChunkBasis, dct_matrix, hold_last
from coda.policy.config import PolicyConfig, SftConfig
from coda.policy.device import DeviceError, resolve_device
from coda.policy.flow import FlowChunkPolicy
from coda.policy.learner import sft
from coda.sim.errors import UnknownName
from tests.policy_world import observations, policy, replay


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


def test_samples_have_the_contracts_shape_range_and_determinism() -> None:
    model, obs = policy(), observations(5)
    first = model.sample(obs, 3, generator=generator(1))
    assert first.shape == (5, 3, HORIZON, ACTION_DIM)
    assert first.dtype == torch.float32
    assert first.abs().max() <= 1.0
    assert torch.equal(first, model.sample(obs, 3, generator=generator(1)))
    assert not torch.equal(first, model.sample(obs, 3, generator=generator(2)))
    cold = model.sample(obs, 2, generator=generator(3), temperature=0.0)
    torch.testing.assert_close(cold[:, 1], model.mode(obs))


def test_weights_choose_what_is_imitated() -> None:
    model, obs = policy(), observations(4)
    chunk = torch.rand(4, HORIZON, ACTION_DIM, generator=generator())
    valid = torch.ones(4, HORIZON, dtype=torch.bool)
    weight = torch.tensor([1.0, 0.0, 0.0, 0.0])
    base = model.loss(obs, chunk, weight, valid, generator=generator())
    chunk[1:] = -1.0
    assert torch.equal(base, model.loss(obs, chunk, weight, valid, generator=generator()))
    scaled = model.loss(obs, chunk, 7 * weight, valid, generator=generator())
    torch.testing.assert_close(scaled, base)


def test_the_average_follows_the_trained_weights() -> None:
    model = policy()
    before = model.average.encoder.state.weight.clone()
    with torch.no_grad():
        model.net.encoder.state.weight.add_(1.0)
    model.update_average(0.75)
    torch.testing.assert_close(model.average.encoder.state.weight, before + 0.25)
    trained = {id(p) for p in model.parameters()}
    assert not trained & {id(p) for p in model.average.parameters()}


def test_saving_and_loading_gives_the_same_chunks(tmp_path: Path) -> None:
    model, obs = policy(), observations(3)
    sft(model, replay(), SftConfig(updates=3, batch_size=8), generator=generator())
    model.save(tmp_path / "policies" / "r01")
    again = FlowChunkPolicy.load(tmp_path / "policies" / "r01")
    assert again.config == model.config
    assert torch.equal(again.mode(obs), model.mode(obs))
    for mine, other in zip(model.net.parameters(), again.net.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_other_versions_and_broken_files_are_refused_in_one_line(tmp_path: Path) -> None:
    model, path = policy(), tmp_path / "p"
    with pytest.raises(PolicyError, match="does not exist; give the path"):
        FlowChunkPolicy.load(path)
    model.save(path)
    sidecar = tmp_path / "p.json"
    good = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps({**good, "version": 99}))
    with pytest.raises(PolicyError, match="version 99; this version reads") as caught:
        FlowChunkPolicy.load(path)
    assert "\n" not in str(caught.value)
    sidecar.write_text(json.dumps({**good, "features": []}))
    with pytest.raises(PolicyError, match="features differ"):
        FlowChunkPolicy.load(path)
    sidecar.write_text(json.dumps(good))
    (tmp_path / "p.safetensors").write_bytes(b"torn")
    with pytest.raises(PolicyError, match="is not readable"):
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
