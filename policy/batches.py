"""One round's training data as tensors: built once, then only indexed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coda.policy.base import ChunkPolicy, PolicyError
from coda.policy.config import LearnerConfig
from coda.policy.observation import Observation, observe_vector
from coda.policy.potential import StatePotential
from coda.policy.replay import SOURCES, Replay
from coda.sim.frame import SimFrame

PART = 4096
"""Rows evaluated at a time."""


@dataclass
class RoundData:
    """Replay under one potential: S states, M transitions, N candidate chunks a state."""

    vector: Tensor
    """What the policy sees of every state, not normalised, (S, V)."""
    privileged: Tensor
    """What the critics see, not normalised, (S, D)."""
    pictures: Tensor | None
    """(S, cameras, 3, h, w) where the policy sees pictures; the replay's own memory on the CPU."""
    text: Tensor
    """Embeddings (n, E), and for every state its row:"""
    text_row: Tensor
    phi: Tensor
    """Phi of every state, (S,); zero without a potential."""
    stage: Tensor
    """Stage of every state, (S,)."""
    state: Tensor
    next_state: Tensor
    coefficients: Tensor
    """Executed chunks, normalised coefficients (M, C)."""
    counted: Tensor
    """k / H of every transition, (M,)."""
    steps: Tensor
    reward: Tensor
    """Discounted reward inside the chunk, (M,), without any potential."""
    terminated: Tensor
    candidates: Tensor
    """Normalised coefficients of the policy's chunks in every state, (S, N, C)."""

    @property
    def transitions(self) -> int:
        """Number of transitions M."""
        return int(self.state.shape[0])

    def observations(self, states: Tensor | slice) -> Observation:
        """What the policy sees of some states."""
        pictures = None if self.pictures is None else self.pictures[states]
        return Observation(self.vector[states], self.text[self.text_row[states]], pictures)


def _vectors(of: Callable[[SimFrame], npt.NDArray[np.float32]], replay: Replay) -> Tensor:
    """Vectors of every stored state, (S, V), on the CPU."""
    parts = [
        torch.from_numpy(of(replay.frames(start, start + PART)))
        for start in range(0, replay.states, PART)
    ]
    return torch.cat(parts)


def policy_vectors(policy: ChunkPolicy, replay: Replay) -> Tensor:
    """What a policy sees of every stored state beside pictures and text, (S, V), on the CPU."""
    return _vectors(policy.vector, replay)


def _pictures(policy: ChunkPolicy, replay: Replay) -> Tensor | None:
    """The replay's pictures, not copied; None where the policy sees none."""
    if policy.view is None:
        return None
    held = None if replay.pictures is None else replay.pictures.shape[1:]
    if replay.pictures is None or held != policy.view.shape:
        raise PolicyError(
            f"the replay holds {'no pictures' if held is None else f'pictures {held}'}; the "
            f"{policy.backbone} policy needs {policy.view.shape}. Collect the episodes with it."
        )
    return torch.from_numpy(replay.pictures).to(policy.device.torch)


def potential_columns(potential: StatePotential | None, replay: Replay) -> tuple[Tensor, Tensor]:
    """Phi (S,) float32 and stage (S,) of every stored state; zeros where there is none."""
    phi = np.zeros(replay.states, np.float32)
    stage = np.zeros(replay.states, np.int64)
    if potential is not None:
        for start in range(0, replay.states, PART):
            value = potential.evaluate(replay.frames(start, start + PART))
            phi[start : start + PART] = value.phi
            stage[start : start + PART] = value.stage
    return torch.from_numpy(phi), torch.from_numpy(stage)


def build(
    policy: ChunkPolicy, replay: Replay, potential: StatePotential | None, config: LearnerConfig
) -> RoundData:
    """Put a replay's tensors on the policy's device; `candidates` are drawn by `refresh`."""
    device = policy.device.torch
    steps = torch.from_numpy(replay["steps"])
    valid = torch.from_numpy(replay.valid())
    phi, stage = potential_columns(potential, replay)
    coefficients = policy.coefficients(
        torch.from_numpy(replay["actions"]).to(device), valid.to(device)
    )
    size = (replay.states, config.candidates, policy.chunk_dim)
    return RoundData(
        vector=policy_vectors(policy, replay).to(device),
        privileged=_vectors(observe_vector, replay).to(device),
        pictures=_pictures(policy, replay),
        text=torch.from_numpy(replay.texts.copy()).to(device),
        text_row=torch.from_numpy(replay.state_text.copy()).to(device),
        phi=phi.to(device),
        stage=stage.to(device),
        state=torch.from_numpy(replay["state"].copy()).to(device),
        next_state=torch.from_numpy(replay["next_state"].copy()).to(device),
        coefficients=coefficients,
        counted=(steps / policy.horizon).float().to(device),
        steps=steps.to(device),
        reward=(
            torch.from_numpy(replay["reward"]) * config.discount ** (steps - 1).clamp_min(0)
        ).to(device),
        terminated=torch.from_numpy(replay["terminated"].copy()).to(device),
        candidates=torch.empty(size, device=device),
    )


def refresh(data: RoundData, policy: ChunkPolicy, generator: torch.Generator) -> None:
    """Draw every state's N candidate chunks again from the averaged policy."""
    states, n, _ = data.candidates.shape
    part = max(1, PART // n)
    for start in range(0, states, part):
        rows = slice(start, min(start + part, states))
        data.candidates[rows] = policy.sample_coefficients(
            data.observations(rows), n, generator=generator
        )


class Mixture:
    """Draws batches of rows with fixed shares per group; empty groups leave theirs to the rest."""

    def __init__(self, groups: list[tuple[Tensor, float]], batch_size: int) -> None:
        filled = [(rows, share) for rows, share in groups if rows.numel() and share > 0]
        total = sum(share for _, share in filled)
        counts = [round(batch_size * share / total) for _, share in filled]
        if counts:
            counts[-1] += batch_size - sum(counts)
        self.groups = [(r, c) for (r, _), c in zip(filled, counts, strict=True) if c > 0]

    def draw(self, generator: torch.Generator) -> Tensor:
        """Rows (batch_size,), group by group."""
        return torch.cat(
            [
                rows[torch.randint(rows.numel(), (count,), generator=generator)]
                for rows, count in self.groups
            ]
        )


def actor_groups(
    replay: Replay, config: LearnerConfig, weight: Tensor
) -> list[tuple[Tensor, float]]:
    """Row groups of the actor: demonstrations, this round's chunks, earlier rounds' chunks.

    Rows of weight zero are never drawn.
    """
    planner = replay["source"] == SOURCES.index("planner")
    newest = replay["round"] == (replay["round"].max() if len(replay) else 0)
    used = weight.cpu().numpy() > 0
    rest = 1.0 - config.anchor_share

    def rows(mask: np.ndarray) -> Tensor:
        return torch.from_numpy(np.flatnonzero(mask))

    return [
        (rows(planner & used), config.anchor_share),
        (rows(~planner & used & ~newest), rest * config.replay_share),
        (rows(~planner & used & newest), rest * (1.0 - config.replay_share)),
    ]
