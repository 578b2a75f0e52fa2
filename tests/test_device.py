"""Devices are resolved once and said aloud; half precision changes the products only."""

from __future__ import annotations

import pytest
import torch

from coda.graphs.config import make_config
from coda.graphs.doctor import check_cores
from coda.policy.actor import ActorTrainer
from coda.policy.backbones import load_policy, make_policy
from coda.policy.batches import build, refresh
from coda.policy.config import DEBUG_CRITIC, DEBUG_LEARNER, DEBUG_POLICY
from coda.policy.critic import ChunkCritic
from coda.policy.device import DeviceError, autocast, resolve_device
from coda.policy.learner import update_round
from coda.policy.observation import OBSERVATION_DIM
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.values import CriticTrainer
from coda.sim.errors import CodaError, UnknownName
from tests.policy_world import policy, replay

CPU = torch.device("cpu")


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which torch sees no CUDA device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch says of itself on a machine with a card; nothing is put there."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"card {index}")


@pytest.mark.usefixtures("no_cuda")
def test_without_a_card_auto_is_the_processor_and_cuda_an_error() -> None:
    assert resolve_device("cpu").said == "cpu"
    auto = resolve_device("auto")
    assert (auto.torch, auto.said) == (CPU, "cpu (auto: torch sees no CUDA device)")
    with pytest.raises(DeviceError, match="use device = 'cpu' or 'auto'") as caught:
        resolve_device("cuda")
    assert "\n" not in str(caught.value)
    with pytest.raises(DeviceError):
        make_policy("flow", DEBUG_POLICY, device="cuda")


@pytest.mark.usefixtures("one_card")
def test_with_a_card_auto_takes_it_and_says_which() -> None:
    assert resolve_device("cpu").torch == CPU
    assert resolve_device("cuda").said == "cuda: card 0"
    auto = resolve_device("auto")
    assert (auto.torch.type, auto.said) == ("cuda", "cuda: card 0 (auto)")


def test_an_unknown_device_is_one_line() -> None:
    with pytest.raises(UnknownName, match="device"):
        resolve_device("gpu")
    with pytest.raises(CodaError, match="device"):
        make_config("debug", overrides=["device=gpu"])
    with pytest.raises(CodaError, match="learner"):
        make_config("debug", overrides=["learner.device=cpu"])


@pytest.mark.usefixtures("no_cuda")
def test_one_setting_decides_and_the_doctor_says_what_auto_is() -> None:
    assert make_config("debug").device == "cpu"
    assert make_config("debug", overrides=["device=auto"]).device == "auto"
    assert "device=auto is cpu (auto: torch sees no CUDA device)" in check_cores().detail


def test_policies_and_critics_are_read_onto_a_device(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("device") / "p"
    policy().save(path)
    assert load_policy(path, device="cpu").device.torch == CPU
    critic = ChunkCritic(DEBUG_CRITIC, obs_dim=4, chunk_dim=2)
    critic.save(path)
    assert ChunkCritic.load(path, device="cpu").device.torch == CPU


def test_autocast_is_off_unless_asked_for() -> None:
    a = torch.ones(2, 2)
    with autocast(CPU, "float32"):
        assert (a @ a).dtype == torch.float32
    with autocast(CPU, "bfloat16"):
        assert (a @ a).dtype == torch.bfloat16
    assert (a @ a).dtype == torch.float32


def losses(precision: str) -> tuple[list[float], list[float], set[torch.dtype]]:
    """First losses of actor and critics, and the types of the weights afterwards."""
    config = DEBUG_LEARNER.model_copy(update={"precision": precision})
    acting = policy()
    data = build(acting, replay(), Potential(base_program("pick-place")), config)
    generator = torch.Generator().manual_seed(0)
    refresh(data, acting, generator)
    critic = ChunkCritic(DEBUG_CRITIC, obs_dim=OBSERVATION_DIM, chunk_dim=acting.basis.size)
    rows = torch.arange(16)
    actor = ActorTrainer(acting, config, 4, 1)
    loss = [float(actor.update(data, rows, torch.ones(16), generator)) for _ in range(3)]
    td = CriticTrainer(critic, data, config)
    found = [float(x) for _ in range(3) for x in td.update(rows, generator)]
    kinds = {p.dtype for p in (*acting.parameters(), *critic.trained())}
    return loss, found, kinds


def test_bfloat16_changes_losses_a_little_and_keeps_the_weights_whole() -> None:
    actor, critics, kinds = losses("float32")
    rough, rough_critics, rough_kinds = losses("bfloat16")
    assert kinds == rough_kinds == {torch.float32}
    assert rough != actor
    assert rough == pytest.approx(actor, rel=0.05)  # the first is equal: the last layer is zero
    assert rough_critics != critics
    assert rough_critics == pytest.approx(critics, rel=0.1, abs=1e-3)


def test_a_round_trains_in_bfloat16() -> None:
    config = DEBUG_LEARNER.model_copy(update={"precision": "bfloat16"})
    acting = policy()
    critic = ChunkCritic(DEBUG_CRITIC, obs_dim=OBSERVATION_DIM, chunk_dim=acting.basis.size)
    before = [p.clone() for p in acting.parameters()]
    base = Potential(base_program("pick-place"))
    report = update_round(
        acting, critic, replay(), base, config, generator=torch.Generator().manual_seed(0)
    )
    assert report.actor_updates == 4
    assert any((a != b).any() for a, b in zip(before, acting.parameters(), strict=True))
