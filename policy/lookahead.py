"""Lookahead: guided search in the simulator, whose choices the policy is trained on.

At each chunk the state is branched, candidate chunks are simulated, and the one with the highest
score afterwards is the label of that state: ``Phi(s') + V(s')``, of which either may be missing,
and any success above all. What is *executed* is the label, or, with probability `policy_share`, the
policy's own sample: labels then cover the states that the policy itself visits (Ross et al., 2011,
DAgger). Without a potential nothing names motions: the candidates are then the policy's samples and
random ones, and among equal scores chance decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from coda.policy.base import ChunkPolicy
from coda.policy.candidates import ServoCandidates
from coda.policy.potential import Potential, PotentialValue
from coda.policy.random_candidates import CandidateSource, RandomCandidates
from coda.policy.state_value import StateValue
from coda.sim.cameras import Cameras, Pictures
from coda.sim.engine import CHUNK, BatchSim, ChunkResult, Snapshot
from coda.sim.families import step_limits
from coda.sim.frame import Array, SimFrame
from coda.sim.scene import Scene
from coda.sim.scene_state import SceneState, start_from

SUCCESS_RANK = 10.0
"""Above every sum of a potential and a value."""


@dataclass(frozen=True, kw_only=True)
class LookaheadConfig:
    """Settings of the search."""

    policy_candidates: int = 2
    """Chunks of the policy among the candidates: its mode and samples; 0 without a policy."""
    servo_candidates: int = 8
    """Chunks that servo towards the stage's target points; random ones without a potential."""
    noisy_handicap: float = 0.03
    """Gain in potential that a noisy motion must show over a clean one: labels that are a clear
    function of the state distil, mixtures of near-equal choices do not."""
    policy_handicap: float = 0.03
    """The same for the policy's own chunks."""
    order_handicap: float = 0.004
    """The same per place in the stage's list of clean motions: ties fall the same way."""
    policy_share: float = 0.3
    """Probability that an episode's chunk executes the policy's own sample."""
    explore_share: float = 0.0
    """Probability that a chunk executes a candidate drawn at random."""
    prefix_chunks: int = 0
    """Most chunks that the policy's own samples are executed for before the search leads: some
    searches then begin in the states where the policy fails, in place of the scene's start."""
    stall_chunks: int = 4
    """Whole chunks without a new best potential after which an episode is given up."""
    chunk_steps: int = CHUNK
    """Control steps of a chunk that are executed before the next is chosen; divides H."""
    max_steps: int | None = None
    """Step limit beside the tasks' own."""
    noise_m: float = 0.015
    rejected: int = 0
    """Candidates of every decision, beside the best, that are kept: they are simulated anyway, and
    a critic that has only seen best chunks cannot tell others from them."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """One searched transition: the best chunk at a state and the state it led to."""

    scene: int
    """Index of the scene."""
    frames: Array
    """Packed states before and after, (2, F)."""
    action: Array
    """Chunk (H, 7)."""
    length: int
    """Control steps executed."""
    success: bool
    gain: float
    """Rise of the potential and the value."""
    executed: bool
    """Whether the episode went on with this chunk."""
    pictures: Pictures | None = None
    """Pictures of `frames`, (2, cameras, 3, h, w), where the policy sees pictures."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What a search over a batch of scenes found."""

    labels: tuple[Label, ...]
    rejected: tuple[Label, ...]
    """Other candidates, for the critic and not to be imitated."""
    success: npt.NDArray[np.bool_]
    """Whether each scene's episode ended in success, (B,)."""
    phi_max: Array
    """Highest potential reached in each scene, (B,)."""
    stall_stage: npt.NDArray[np.int64]
    """Stage of each scene's last state: where a search that failed stood, (B,)."""
    simulated_steps: int
    """Control steps simulated, branches included."""


def search(
    scenes: Sequence[Scene],
    potential: Potential | None,
    policy: ChunkPolicy | None,
    text: npt.NDArray[np.float32],
    config: LookaheadConfig,
    *,
    rng: np.random.Generator,
    value: StateValue | None = None,
    starts: Mapping[int, SceneState] | None = None,
    threads: int = 1,
) -> SearchResult:
    """Search every scene of a batch once.

    Args:
        scenes: B scenes.
        potential: Ranks the candidates, and names their motions. None leaves the ranking to
            `value` and to success, and an episode is then not given up before its limit.
        policy: Proposes candidates and is followed for `policy_share` of the chunks.
        text: Embeddings of the instructions (B, E).
        config: Settings.
        rng: Source of all randomness.
        value: Added to the potential of every state that a chunk leads to.
        starts: States that some scenes, by index, begin in; the others begin at their start.
        threads: Physics threads.
    """
    return _Search(scenes, potential, policy, text, config, rng, value, threads).run(starts or {})


@dataclass(frozen=True)
class _Branches:
    """What one decision of a batch has simulated."""

    before: Array
    """Packed states, (B, F)."""
    gain: Array
    """Rise of the score, (B, N)."""
    candidates: Array
    """Chunks (B, N, H, 7)."""
    outcome: ChunkResult
    """Of all branches, B*N."""
    taken: npt.NDArray[np.int64]
    """Candidates that are executed, (B,)."""


class _Search:
    def __init__(
        self,
        scenes: Sequence[Scene],
        potential: Potential | None,
        policy: ChunkPolicy | None,
        text: npt.NDArray[np.float32],
        config: LookaheadConfig,
        rng: np.random.Generator,
        value: StateValue | None,
        threads: int,
    ) -> None:
        self._potential, self._policy, self._text = potential, policy, text
        self._config, self._rng, self._value = config, rng, value
        self._generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        self._own = config.policy_candidates if policy is not None else 0
        more = config.servo_candidates
        self._source: CandidateSource = (
            RandomCandidates(more)
            if potential is None
            else ServoCandidates(potential, more, noise_m=config.noise_m)
        )
        self._count = self._own + more
        self._sim = BatchSim(scenes, threads=threads)
        self._branches = self._sim.branch(self._count)
        self._rows = np.repeat(np.arange(len(scenes)), self._count)
        view = None if policy is None else policy.view
        self._cameras = None if view is None else Cameras(scenes, view)
        self._pictures: Pictures | None = None

    def run(self, starts: Mapping[int, SceneState]) -> SearchResult:
        """Search; see `search`."""
        config, sim = self._config, self._sim
        frame = sim.reset()
        if starts:
            frame = start_from(sim, starts)
        known, score = self._look(frame, np.arange(sim.batch))
        active = np.ones(sim.batch, dtype=np.bool_)
        success = np.zeros(sim.batch, dtype=np.bool_)
        best_phi = known.phi.copy()
        since_best = np.zeros(sim.batch, dtype=np.int64)
        labels: list[Label] = []
        rejected: list[Label] = []
        simulated = 0
        per_chunk = CHUNK // config.chunk_steps  # decisions in the time of a whole chunk
        prefix = self._rng.integers(0, config.prefix_chunks + 1, sim.batch) * per_chunk
        limit = step_limits(sim.scenes, config.max_steps) // config.chunk_steps
        for step in range(int(limit.max())):
            active &= step < limit
            snapshot = sim.snapshot()
            if self._cameras is not None:
                self._pictures = self._cameras.look(sim, active)
            candidates = self._candidates(frame, known.stage)
            outcome, reached = self._simulate(snapshot, candidates, active)
            simulated += int(outcome.steps.sum())
            chosen = self._choose(_rank(outcome, reached), known.stage)
            taken = self._take(chosen, step < prefix)
            found = _Branches(frame.pack(), reached - score[:, None], candidates, outcome, taken)
            labels += self._labels(found, chosen, active)
            for other in self._others(chosen):
                rejected += self._labels(found, other, active)
            executed = candidates[np.arange(sim.batch), taken, : config.chunk_steps]
            result = sim.step_chunk(executed, active)
            simulated += int(result.steps.sum())
            success |= result.success
            frame = result.frame
            known, score = self._look(frame, np.arange(sim.batch))
            risen = known.phi > best_phi + 0.005
            since_best = np.where(risen, 0, since_best + 1)
            best_phi = np.maximum(best_phi, known.phi)
            stalled = since_best - np.minimum(prefix, step + 1)
            active &= ~(result.success | result.crashed)
            if self._potential is not None:
                active &= stalled < config.stall_chunks * per_chunk
            if not active.any():
                break
        sim.close()
        if self._cameras is not None:
            self._cameras.close()
        return SearchResult(
            labels=tuple(labels),
            rejected=tuple(rejected),
            success=success,
            phi_max=best_phi,
            stall_stage=known.stage,
            simulated_steps=simulated,
        )

    def _look(self, frame: SimFrame, scenes: npt.NDArray[np.int64]) -> tuple[PotentialValue, Array]:
        """Potential and score (n,) of states of `scenes` (n,)."""
        if self._potential is None:
            none = np.zeros(frame.batch)
            known = PotentialValue(none, none.astype(np.int64), none)
        else:
            known = self._potential.evaluate(frame)
        if self._value is None:
            return known, known.phi
        return known, known.phi + self._value(frame, self._text[scenes])

    def _take(
        self, chosen: npt.NDArray[np.int64], following: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """Candidates to execute (B,): the labels, random ones, or the policy's sample."""
        config, batch = self._config, len(chosen)
        draw = self._rng.random(batch)
        anything = self._rng.integers(0, self._count, batch)
        taken = np.where(draw > 1.0 - config.explore_share, anything, chosen)
        if self._own:
            taken = np.where(following | (draw < config.policy_share), self._own - 1, taken)
        return taken

    def _candidates(self, frame: SimFrame, stage: npt.NDArray[np.int64]) -> Array:
        more = self._source.propose(frame, np.asarray(stage, dtype=np.float64), self._rng)
        if self._policy is None or not self._own:
            return more
        obs = self._policy.observe(frame, self._text, self._pictures)
        parts = [self._policy.mode(obs)[:, None].cpu().numpy()]
        if self._own > 1:
            drawn = self._policy.sample(obs, self._own - 1, generator=self._generator)
            parts.append(drawn.cpu().numpy())
        return np.concatenate([*parts, more], axis=1).astype(np.float64)

    def _simulate(
        self, snapshot: Snapshot, candidates: Array, active: npt.NDArray[np.bool_]
    ) -> tuple[ChunkResult, Array]:
        """Outcomes of all branches (B*N), and the scores (B, N) of the states they led to."""
        self._branches.restore(snapshot, self._rows.tolist())
        flat = candidates.reshape(-1, *candidates.shape[2:])[:, : self._config.chunk_steps]
        outcome = self._branches.step_chunk(flat, active[self._rows])
        live = np.flatnonzero(active[self._rows])
        reached = np.zeros(len(self._rows))
        reached[live] = self._look(outcome.frame[live], self._rows[live])[1]
        return outcome, reached.reshape(-1, self._count)

    def _choose(self, rank: Array, stage: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Best candidate of each state (B,), with preference for clean motions.

        Where no potential tells clean from noisy, chance decides among equals.
        """
        config = self._config
        if self._potential is None:
            best = rank >= rank.max(axis=1, keepdims=True)
            return np.asarray(np.argmax(best * (1.0 + self._rng.random(rank.shape)), axis=1))
        place = np.arange(config.servo_candidates)[None, :]
        noisy = place >= self._source.clean[stage][:, None]
        handicap = np.full_like(rank, config.policy_handicap)
        handicap[:, self._own :] = np.where(
            noisy, config.noisy_handicap, config.order_handicap * place
        )
        return np.asarray(np.argmax(rank - handicap, axis=1))

    def _others(self, chosen: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Candidates that were not chosen, drawn at random, (K, B), no two of a state alike."""
        kept = min(self._config.rejected, self._count - 1)
        if not kept:
            return np.zeros((0, len(chosen)), dtype=np.int64)
        every = np.tile(np.arange(self._count - 1), (len(chosen), 1))
        drawn = self._rng.permuted(every, axis=1)[:, :kept].T
        return np.asarray(drawn + (drawn >= chosen), dtype=np.int64)

    def _labels(
        self,
        found: _Branches,
        picked: npt.NDArray[np.int64],
        active: npt.NDArray[np.bool_],
    ) -> list[Label]:
        """The transition of one candidate `picked` (B,) of each active state."""
        outcome = found.outcome
        rows = np.arange(len(picked)) * self._count + picked
        after = outcome.frame[rows].pack()
        return [
            Label(
                scene=b,
                frames=np.stack((found.before[b], after[b])),
                action=found.candidates[b, picked[b]],
                length=int(outcome.steps[rows[b]]),
                success=bool(outcome.success[rows[b]]),
                gain=float(found.gain[b, picked[b]]),
                executed=bool(found.taken[b] == picked[b]),
                pictures=self._seen(b, int(rows[b])),
            )
            for b in np.flatnonzero(active).tolist()
            if not outcome.crashed[rows[b]]
        ]

    def _seen(self, scene: int, branch: int) -> Pictures | None:
        """What the policy sees of a scene now, and where one branch has led; only branches that
        are kept are drawn."""
        if self._cameras is None or self._pictures is None:
            return None
        after = self._cameras.draw(scene, self._branches.qpos(branch))
        return np.stack((self._pictures[scene], after))


def _rank(outcome: ChunkResult, reached: Array) -> Array:
    """Scores (B, N) with any success above them, the sooner the better, and crashes below."""
    won, steps = outcome.success.reshape(reached.shape), outcome.steps.reshape(reached.shape)
    rank = np.where(won, SUCCESS_RANK - 0.01 * steps, reached)
    return np.where(outcome.crashed.reshape(reached.shape), -SUCCESS_RANK, rank)
