"""One contract for every policy backbone: shapes, determinism, weights, averages, files, rounds."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from coda.policy.backbones import BACKBONES, load_policy, make_policy, policy_label
from coda.policy.base import ChunkPolicy, PolicyError
from coda.policy.batches import build, policy_vectors, refresh
from coda.policy.chunks import ACTION_DIM, HORIZON
from coda.policy.config import (
    DEBUG_CRITIC,
    DEBUG_LEARNER,
    DEBUG_POLICY,
    DEBUG_SFT,
    LearnerConfig,
    PictureConfig,
)
from coda.policy.learner import sft
from coda.policy.observation import OBSERVATION_DIM, Observation
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.replay import Replay
from coda.policy.text import TextEncoder
from coda.sim.errors import UnknownName
from coda.sim.splits import Splits
from coda.tools.acting import shown
from coda.tools.collecting import RoundBudget, Target
from coda.tools.training import seed_policy, train_round
from tests.policy_world import never_closing, replay_files, successes, text

SHAPE = DEBUG_POLICY.model_copy(update={"pictures": PictureConfig(size=32, channels=4, draws=2)})
ROWS = 6


@pytest.fixture(params=sorted(BACKBONES))
def backbone(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def policy(backbone: str, seed: int = 0) -> ChunkPolicy:
    return make_policy(backbone, SHAPE, seed=seed)


@functools.cache
def memory(backbone: str) -> Replay:
    """Two planner successes and a failed attempt of round 1, as this backbone learns from them."""
    out, model = Replay(), policy(backbone)
    for episode in shown(model, successes()[:2]):
        out.add(episode, text(), source="planner")
    for episode in shown(model, never_closing()[:1]):
        out.add(episode, text(1), source="policy", round_index=1)
    return out


@functools.cache
def seen(backbone: str) -> Observation:
    """What it sees of some states of an episode that lie far apart."""
    held, model = memory(backbone), policy(backbone)
    pictures = held.pictures
    return model.observe(
        held.frames(0, ROWS),
        held.texts[held.state_text[:ROWS]],
        None if pictures is None else pictures[:ROWS],
    )


def normalised(model: ChunkPolicy, held: Replay) -> None:
    rows = torch.from_numpy(held["state"])
    model.fit_normalisers(
        policy_vectors(model, held)[rows],
        torch.from_numpy(held["actions"]),
        torch.from_numpy(held.valid()),
    )


@pytest.fixture
def ready(backbone: str) -> ChunkPolicy:
    """A fresh policy with the statistics of the data."""
    model = policy(backbone)
    normalised(model, memory(backbone))
    with torch.no_grad():  # an untrained head is zero: every chunk would be alike
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator(9)))
    model.update_average(0.0)
    return model


def chunks(count: int) -> torch.Tensor:
    return 2 * torch.rand(count, HORIZON, ACTION_DIM, generator=generator(5)) - 1


def test_samples_have_shape_range_and_determinism(backbone: str, ready: ChunkPolicy) -> None:
    obs = seen(backbone)
    first = ready.sample(obs, 3, generator=generator(1))
    assert first.shape == (ROWS, 3, HORIZON, ACTION_DIM)
    assert first.dtype == torch.float32
    assert first.abs().max() <= 1.0
    assert torch.equal(first, ready.sample(obs, 3, generator=generator(1)))
    assert not torch.equal(first, ready.sample(obs, 3, generator=generator(2)))
    assert ready.horizon == HORIZON


def test_the_mode_has_no_chance_in_it(backbone: str, ready: ChunkPolicy) -> None:
    obs = seen(backbone)
    mode = ready.mode(obs)
    assert mode.shape == (ROWS, HORIZON, ACTION_DIM)
    assert torch.equal(mode, ready.mode(obs))
    cold = ready.sample(obs, 2, generator=generator(3), temperature=0.0)
    torch.testing.assert_close(cold, mode.unsqueeze(1).expand(-1, 2, -1, -1))


def test_chunks_follow_what_is_seen(backbone: str, ready: ChunkPolicy) -> None:
    mode = ready.mode(seen(backbone))
    assert (mode[0] - mode[ROWS - 1]).abs().max() > 1e-4


def test_rows_do_not_depend_on_their_batch(backbone: str, ready: ChunkPolicy) -> None:
    obs = seen(backbone)
    whole = ready.mode(obs)
    for rows in ([2], [4, 1], [5, 0, 3]):
        torch.testing.assert_close(ready.mode(obs[rows]), whole[rows], rtol=0, atol=1e-5)


def test_coefficients_are_the_chunks(backbone: str, ready: ChunkPolicy) -> None:
    obs = seen(backbone)
    drawn = ready.sample_coefficients(obs, 2, generator=generator(1))
    assert drawn.shape == (ROWS, 2, ready.chunk_dim)
    assert torch.equal(ready.chunks(drawn), ready.sample(obs, 2, generator=generator(1)))
    valid = torch.ones(ROWS, HORIZON, dtype=torch.bool)
    smooth = ready.mode(obs)
    again = ready.chunks(ready.coefficients(smooth, valid))
    inside = smooth.abs().amax(dim=(1, 2)) < 1.0
    torch.testing.assert_close(again[inside], smooth[inside], rtol=0, atol=1e-4)


def test_weights_and_executed_steps_choose_what_is_imitated(
    backbone: str, ready: ChunkPolicy
) -> None:
    obs, chunk = seen(backbone), chunks(ROWS)
    valid = torch.ones(ROWS, HORIZON, dtype=torch.bool)
    weight = torch.zeros(ROWS)
    weight[0] = 1.0

    def loss(chunk: torch.Tensor, weight: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        return ready.loss(obs, chunk, weight, valid, generator=generator()).detach()

    base = loss(chunk, weight, valid)
    other = chunk.clone()
    other[1:] = -1.0
    assert torch.equal(base, loss(other, weight, valid))
    torch.testing.assert_close(base, loss(chunk, 7 * weight, valid))
    assert not torch.equal(base, loss(chunk, torch.ones(ROWS), valid))
    cut = valid.clone()
    cut[:, 3:] = False
    tail = torch.where(cut.unsqueeze(-1), chunk, torch.full_like(chunk, 0.9))
    assert torch.equal(loss(chunk, weight, cut), loss(tail, weight, cut))
    assert not torch.equal(loss(chunk, weight, cut), base)


def test_the_loss_falls_on_one_batch(backbone: str, ready: ChunkPolicy) -> None:
    obs = seen(backbone)
    held = memory(backbone)
    chunk = torch.from_numpy(held["actions"][:ROWS])
    valid = torch.from_numpy(held.valid()[:ROWS])
    optimiser = torch.optim.Adam(ready.parameters(), lr=5e-3)
    losses = []
    rng = generator()
    for _ in range(300):
        loss = ready.loss(obs, chunk, torch.ones(ROWS), valid, generator=rng)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        ready.update_average(0.9)
        losses.append(float(loss.detach()))
    assert np.mean(losses[-30:]) < 0.6 * np.mean(losses[:30])


def test_sampling_uses_the_average_and_the_loss_the_trained_weights(
    backbone: str, ready: ChunkPolicy
) -> None:
    obs = seen(backbone)
    before = ready.mode(obs)
    with torch.no_grad():
        for weight in ready.parameters():
            weight.add_(0.1)
    assert torch.equal(ready.mode(obs), before)
    ready.update_average(1.0)
    assert torch.equal(ready.mode(obs), before)
    ready.update_average(0.5)
    half = ready.mode(obs)
    assert not torch.equal(half, before)
    ready.update_average(0.0)
    assert not torch.equal(ready.mode(obs), half)


def test_the_same_seed_makes_the_same_policy(backbone: str) -> None:
    one, two, other = policy(backbone, 1), policy(backbone, 1), policy(backbone, 2)
    pairs = list(zip(one.parameters(), two.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert any(
        not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)
    )


def test_files_give_the_same_policy_bit_for_bit(
    backbone: str, ready: ChunkPolicy, tmp_path: Path
) -> None:
    path = tmp_path / "policies" / "r01"
    ready.save(path)
    for again in (load_policy(path), BACKBONES[backbone].load(path)):
        assert again.backbone == backbone
        assert torch.equal(again.mode(seen(backbone)), ready.mode(seen(backbone)))
        for mine, other in zip(ready.parameters(), again.parameters(), strict=True):
            assert torch.equal(mine, other)
    first = (path.with_suffix(".safetensors").read_bytes(), path.with_suffix(".json").read_text())
    load_policy(path).save(path)
    again_files = (
        path.with_suffix(".safetensors").read_bytes(),
        path.with_suffix(".json").read_text(),
    )
    assert again_files == first


def test_what_another_version_wrote_is_refused_in_one_line(
    backbone: str, ready: ChunkPolicy, tmp_path: Path
) -> None:
    path, sidecar = tmp_path / "p", tmp_path / "p.json"
    with pytest.raises(PolicyError, match="does not exist; give the path"):
        load_policy(path)
    ready.save(path)
    good = json.loads(sidecar.read_text())
    for change, words in (
        ({"version": 99}, "version 99; this version reads"),
        ({"features": []}, "features differ"),
        ({"format": "coda-chunk-critic"}, "is no policy's; this version reads"),
    ):
        sidecar.write_text(json.dumps({**good, **change}))
        with pytest.raises(PolicyError, match=words) as caught:
            load_policy(path)
        assert "\n" not in str(caught.value)
    others = [name for name in BACKBONES if name != backbone]
    sidecar.write_text(json.dumps(good))
    for name in others:
        with pytest.raises(PolicyError, match="this version reads"):
            BACKBONES[name].load(path)


def test_learners_need_the_protocol_only(backbone: str) -> None:
    model, held = policy(backbone), memory(backbone)
    report = sft(model, held, DEBUG_SFT, generator=generator())
    assert report.loss_last < report.loss_first
    data = build(model, held, Potential(base_program("pick-place")), LearnerConfig(candidates=3))
    assert data.privileged.shape == (held.states, OBSERVATION_DIM)
    refresh(data, model, generator(4))
    assert data.candidates.shape == (held.states, 3, model.chunk_dim)
    shown_ = data.observations(slice(0, ROWS))
    drawn = model.sample_coefficients(shown_, 3, generator=generator(4))
    torch.testing.assert_close(data.candidates[:ROWS, 0], drawn[:, 0], rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder()


def one_round(backbone: str, text: TextEncoder, threads: int) -> tuple[bytes, Replay]:
    """Demonstrations, fine-tuning, one round with search and rollouts; the policy's file."""
    splits, base = Splits(), Potential(base_program("pick-place"))
    seeded = seed_policy(
        [splits.seed_program()],
        text,
        demonstrations=2,
        updates=5,
        seed=3,
        threads=threads,
        shape=SHAPE,
        backbone=backbone,
    )
    target = Target(label="m", program=splits.program(["position"]), potential=base)
    result = train_round(
        seeded.policy,
        None,
        seeded.replay,
        [target],
        RoundBudget(episodes=2, candidates=4, updates=4, rollouts=1),
        text=text,
        splits=splits,
        base=base,
        round_index=1,
        seed=5,
        threads=threads,
        learner=DEBUG_LEARNER,
        critic_shape=DEBUG_CRITIC,
    )
    assert result.report is not None
    assert result.report.actor_updates == 4
    assert np.isfinite(result.report.critic_loss)
    sources = set(seeded.replay["source"].tolist())
    assert len(sources) == 3
    weights = torch.cat([p.detach().flatten() for p in result.policy.parameters()])
    return weights.numpy().tobytes(), seeded.replay


def test_a_round_with_lookahead_is_a_function_of_its_seed(
    backbone: str, encoder: TextEncoder, tmp_path: Path
) -> None:
    weights, held = one_round(backbone, encoder, threads=1)
    again, same = one_round(backbone, encoder, threads=2)
    assert weights == again
    assert np.array_equal(held.packed, same.packed)
    assert (held.pictures is not None) == policy(backbone).needs_pictures
    held.save(tmp_path / "r.npz")
    back = Replay()
    back.load(tmp_path / "r.npz")
    if held.pictures is None:
        assert back.pictures is None
    else:
        assert back.pictures is not None
        rows = held["state"]
        assert np.array_equal(back.pictures[back["state"]], held.pictures[rows])


def test_backbones_are_found_by_name() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'image'"):
        make_policy("imag", SHAPE)
    assert policy_label("flow", SHAPE) == "flow, privileged state"
    assert policy_label("image", SHAPE) == "image, vision (agent view + wrist, 32x32)"
    assert replay_files()  # the shared episodes have no pictures
    assert all(episode.pictures is None for episode in replay_files())
