"""How fast the policy learns and acts, and where a round's time goes.

Run ``python -m coda.bench.policy_throughput``; ``--json`` for scripts. Rates on one thread are
medians of repeated blocks, per second of processor time, so that other work on the machine counts
little. What two threads of torch are worth is a ratio of two rates by the clock, block by block in
turns; it says little on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import get_args

import numpy as np
import torch

from coda.bench.round_shares import round_shares
from coda.policy.actor import ActorTrainer
from coda.policy.batches import Mixture, build, refresh
from coda.policy.config import CriticConfig, LearnerConfig, PolicyConfig, SftConfig
from coda.policy.critic import ChunkCritic
from coda.policy.device import Precision
from coda.policy.flow import FlowChunkPolicy
from coda.policy.learner import sft
from coda.policy.observation import OBSERVATION_DIM, TEXT_DIM, Observation, observe
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.replay import Replay
from coda.policy.values import CriticTrainer
from coda.sim.engine import BatchSim
from coda.sim.families import family
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import run_episodes

BLOCKS = 5
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
TEXT = np.full(TEXT_DIM, TEXT_DIM**-0.5, dtype=np.float32)


def per_second(work: Callable[[], object], count: int, *, blocks: int = BLOCKS) -> float:
    """Median rate [1/s] of `work`, which does `count` things a call, by the processor's time."""
    work()
    rates = []
    for _ in range(blocks):
        start = time.process_time()
        work()
        rates.append(count / (time.process_time() - start))
    return statistics.median(rates)


def half_precision(
    work: Callable[[], object], trainer: ActorTrainer | CriticTrainer, times: int
) -> float:
    """How many times as fast updates in bfloat16 are as in float32."""
    rates = []
    for precision in PRECISIONS:
        trainer.precision = precision
        rates.append(per_second(repeated(work, times), times))
    trainer.precision = PRECISIONS[0]
    return rates[1] / rates[0]


def two_threads(work: Callable[[], object], *, blocks: int = BLOCKS) -> float:
    """How many times as fast `work` is on two threads of torch as on one, by the clock."""
    ratios = []
    for _ in range(blocks):
        spent = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            work()
            start = time.perf_counter()
            work()
            spent.append(time.perf_counter() - start)
        ratios.append(spent[0] / spent[1])
    torch.set_num_threads(1)
    return statistics.median(ratios)


def repeated(work: Callable[[], object], times: int) -> Callable[[], None]:
    """Call `work` so many times."""

    def run() -> None:
        for _ in range(times):
            work()

    return run


def demonstrations(count: int) -> tuple[Replay, float]:
    """Planner episodes of the seed scene, and control steps simulated per second."""
    sim = BatchSim([family("pick-place").seed] * count)
    run_episodes(sim, ScriptedPlanner(), max_steps=8)  # what is compiled on first use, is now
    start = time.process_time()
    episodes = run_episodes(sim, ScriptedPlanner())
    rate = sum(e.steps for e in episodes) / (time.process_time() - start)
    sim.close()
    memory = Replay()
    for episode in episodes:
        memory.add(episode, TEXT, source="planner")
    return memory, rate


def measure(updates: int, batch_size: int) -> dict[str, float]:
    """All rates; see the names."""
    generator = torch.Generator().manual_seed(0)
    memory, simulated = demonstrations(16)
    policy = FlowChunkPolicy(PolicyConfig())
    sft(policy, memory, SftConfig(updates=1, batch_size=batch_size), generator=generator)
    config = LearnerConfig(batch_size=batch_size)
    potential = Potential(base_program("pick-place"))
    data = build(policy, memory, potential, config)
    actor = ActorTrainer(policy, config, 100 * updates, 0)
    critic = ChunkCritic(CriticConfig(), obs_dim=OBSERVATION_DIM, chunk_dim=policy.basis.size)
    values = CriticTrainer(critic, data, config)
    refresh(data, policy, generator)
    draw = Mixture([(torch.arange(data.transitions), 1.0)], batch_size)
    ones = torch.ones(batch_size)
    frames = memory.frames()
    states = frames[np.arange(256) % frames.batch]
    obs = observe(states, np.repeat(TEXT[None], 256, axis=0))
    few = Observation(obs.vector[:16], obs.text[:16])

    def one_actor() -> None:
        actor.update(data, draw.draw(generator), ones, generator)

    def one_critic() -> None:
        values.update(draw.draw(generator), generator)

    def one_sample() -> None:
        policy.sample(few, 16, generator=generator)

    text = obs.text.numpy()
    sampling = per_second(repeated(one_sample, 20), 20)
    return {
        "actor updates/s": per_second(repeated(one_actor, updates), updates),
        "critic updates/s (both pairs)": per_second(repeated(one_critic, updates), updates),
        "chunks sampled/s": 256 * sampling,
        "256 chunks sampled [ms]": 1e3 / sampling,
        "256 modes [ms]": 1e3 / per_second(repeated(lambda: policy.mode(obs), 20), 20),
        "256 observations [ms]": 1e3 / per_second(repeated(lambda: observe(states, text), 50), 50),
        "256 potentials [ms]": 1e3
        / per_second(repeated(lambda: potential.evaluate(replace(states)), 50), 50),
        "simulated control steps/s": simulated,
        "bfloat16: actor updates [x]": half_precision(one_actor, actor, updates),
        "bfloat16: critic updates [x]": half_precision(one_critic, values, updates),
        "two threads: actor updates [x]": two_threads(repeated(one_actor, updates)),
        "two threads: critic updates [x]": two_threads(repeated(one_critic, updates)),
        "two threads: sampling [x]": two_threads(repeated(one_sample, 20)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Throughput of the policy, and a round's shares.")
    parser.add_argument("--updates", type=int, default=50, help="updates in a timed block")
    parser.add_argument("--batch", type=int, default=SftConfig().batch_size, help="batch size")
    parser.add_argument(
        "--families", nargs="*", default=["pick-place"], help="families to train a round on"
    )
    parser.add_argument("--episodes", type=int, default=16, help="searches of that round")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rates = measure(options.updates, options.batch)
    rounds = {
        name: round_shares(name, episodes=options.episodes, threads=1) for name in options.families
    }
    if options.json:
        told = {name: asdict(shares) for name, shares in rounds.items()}
        print(json.dumps({"batch": options.batch, **rates, "rounds": told}))
        return
    print(f"one thread, batch {options.batch}, width {PolicyConfig().width}")
    for name, value in rates.items():
        print(f"{name:<32} {value:10.2f}" if "[x]" in name else f"{name:<32} {value:10.1f}")
    for family_name, shares in rounds.items():
        print(
            f"a round of {options.episodes} searches, {family_name}: "
            f"{shares.seconds:.0f} s, {shares.simulated_steps} control steps, "
            f"{shares.transitions} transitions"
        )
        for kind, share in sorted(shares.shares.items(), key=lambda item: -item[1]):
            print(f"  {kind:<30} {100 * share:10.1f} %")


if __name__ == "__main__":
    main()
