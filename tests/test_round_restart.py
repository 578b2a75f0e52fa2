"""A round of learning that was killed starts again from its files, and ends as if never killed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from coda.policy.actor import ActorTrainer
from coda.policy.backbones import load_policy
from coda.policy.config import DEBUG_CRITIC, DEBUG_LEARNER
from coda.policy.critic import ChunkCritic
from coda.policy.learner import update_round
from coda.policy.observation import OBSERVATION_DIM
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.replay import Replay
from tests.policy_world import policy, replay


class Killed(Exception):
    """The process ended here."""


def learn(folder: Path, round_: int) -> None:
    """A round from the files of the one before to its own, as a run does it."""
    stored = Replay()
    stored.load(folder / "replay.npz")
    acting = load_policy(folder / f"r{round_ - 1}")
    critic = ChunkCritic.load(folder / f"r{round_ - 1}-critic")
    update_round(
        acting,
        critic,
        stored,
        Potential(base_program("pick-place")),
        DEBUG_LEARNER.model_copy(update={"cycles": 2}),
        generator=torch.Generator().manual_seed(round_),
    )
    acting.save(folder / f"r{round_}")
    critic.save(folder / f"r{round_}-critic")


def begin(folder: Path) -> Path:
    """The files before round 1."""
    folder.mkdir()
    replay().save(folder / "replay.npz")
    policy().save(folder / "r0")
    chunk_dim = policy().basis.size
    ChunkCritic(DEBUG_CRITIC, obs_dim=OBSERVATION_DIM, chunk_dim=chunk_dim).save(
        folder / "r0-critic"
    )
    return folder


def test_a_round_killed_in_its_updates_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, pieces = begin(tmp_path / "whole"), begin(tmp_path / "pieces")
    for round_ in (1, 2):
        learn(whole, round_)
    learn(pieces, 1)
    updates = 0
    update = ActorTrainer.update

    def killing(*args: object, **kwargs: object) -> torch.Tensor:
        nonlocal updates
        updates += 1
        if updates == 6:  # in the second cycle
            raise Killed
        return update(*args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(ActorTrainer, "update", killing)
        with pytest.raises(Killed):
            learn(pieces, 2)
    assert not (pieces / "r2.safetensors").exists()
    learn(pieces, 2)
    for name in ("r1", "r1-critic", "r2", "r2-critic"):
        file = f"{name}.safetensors"
        assert (whole / file).read_bytes() == (pieces / file).read_bytes()
    assert (whole / "r1.safetensors").read_bytes() != (whole / "r2.safetensors").read_bytes()
