"""`Deps`: what the nodes need from outside, opened once for a run and closed at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from langchain_core.language_models.chat_models import BaseChatModel

from coda.agents.budget import Budget
from coda.agents.caller import AgentCaller
from coda.agents.models import make_model
from coda.graphs.config import RunConfig
from coda.graphs.events import Listener
from coda.graphs.runfolder import RunFolder
from coda.graphs.settings import Models
from coda.memory.modes import ModeStore
from coda.memory.rundb import RunDb
from coda.memory.vectors import VectorStore
from coda.policy.backbones import load_policy
from coda.policy.critic import ChunkCritic
from coda.policy.potential import Potential, StatePotential
from coda.policy.potential_base import base_program
from coda.policy.text import TextEncoder, shared_encoder
from coda.sim.families import family
from coda.sim.gate import Gate
from coda.sim.splits import Splits
from coda.tools.acting import Acting, Selected
from coda.tools.evaluation import Evaluator
from coda.tools.targets_file import load_targets, value_potential

ROLES = ("scene-builder", "critic", "refuter", "curriculum")


@dataclass(frozen=True, kw_only=True)
class Deps:
    """One record, built by `open_deps`; nodes read it and never change it."""

    config: RunConfig
    folder: RunFolder
    db: RunDb
    vectors: VectorStore
    modes: ModeStore
    agents: AgentCaller
    budget: Budget
    text: TextEncoder
    splits: Splits
    gate: Gate
    base: Potential
    """Potential of the family's task description; judges every rollout's progress."""
    evaluator: Evaluator
    on_event: Listener

    def policy(self, name: str) -> Acting:
        """A policy of the run by its file name, as it acts under the run's training signal."""
        path = self.folder.policies / name
        policy = load_policy(path, device=self.config.device)
        critic = path.with_name(f"{name}-critic")
        known = critic.with_name(f"{critic.name}.safetensors").is_file()
        if self.config.switches.signal != "frozen-actor" or not known:
            return policy
        return Selected(
            policy=policy,
            critic=ChunkCritic.load(critic, device=self.config.device),
            potential=self.shaping(name),
        )

    def shaping(self, name: str) -> StatePotential:
        """Potential that the critic of a policy was trained under."""
        path = self.folder.training / f"{name}.json"
        return value_potential(*load_targets(path)) if path.is_file() else self.base


def open_deps(folder: RunFolder, config: RunConfig, on_event: Listener) -> Deps:
    """Open databases, memory, models and simulator tools of a run.

    Raises:
        CodaError: A key is missing, a database is of another version, an unknown family …
    """
    torch.set_num_threads(1)  # results must not depend on the machine's cores
    family(config.family)
    models = chat_models(config.models)
    db = RunDb(folder.db)
    spent = db.call_totals()
    budget = Budget(
        config.models.max_tokens,
        config.models.max_usd,
        tokens=spent.tokens_in + spent.tokens_out,
        usd=spent.cost_usd,
    )
    text = shared_encoder()
    vectors = VectorStore(folder.chroma)
    vectors.reconcile(db)
    splits = Splits(family=config.family)
    base = Potential(base_program(config.family))
    return Deps(
        config=config,
        folder=folder,
        db=db,
        vectors=vectors,
        modes=ModeStore(db, vectors),
        agents=AgentCaller(models, db, budget, image_dir=folder.path / "images"),
        budget=budget,
        text=text,
        splits=splits,
        gate=Gate(splits, threads=config.threads),
        base=base,
        evaluator=Evaluator(db, text, base, threads=config.threads, max_steps=config.max_steps),
        on_event=on_event,
    )


def close_deps(deps: Deps) -> None:
    """Close the databases."""
    deps.vectors.close()
    deps.db.close()


def chat_models(models: Models) -> Mapping[str, BaseChatModel]:
    """The chat model of every role; equal settings share one."""
    made: dict[str, BaseChatModel] = {}
    for name in dict.fromkeys(models.for_role(role) for role in ROLES):
        made[name] = make_model(
            name,
            # the server that it names speaks OpenAI's format
            base_url=None if name.startswith("anthropic:") else models.base_url,
            temperature=models.temperature,
            timeout_s=models.timeout_s,
        )
    return {role: made[models.for_role(role)] for role in ROLES}
