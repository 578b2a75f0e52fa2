"""Sections of the run configuration; every field says what it decides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from coda.policy.config import Signal

Data = Literal["coda", "uniform", "domain-randomization", "scalar-feedback", "seed-only"]
Memory = Literal["full", "none", "omega", "phi", "raw", "insights", "skills"]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Section(BaseModel):
    """Frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Switches(Section):
    """The rows of the comparison tables; every row is one configuration (design, section 12)."""

    data: Data = "coda"
    """Where training scenes come from."""
    memory: Memory = "full"
    """What the memory keeps and gives back."""
    signal: Signal = "text2potential"
    """Training signal: a potential compiled from each diagnosis, or the family's own."""
    controls: Literal["on", "off"] = "on"
    """Test diagnoses against control scenes, or believe them all."""
    schedule: Literal["adaptive", "fixed"] = "adaptive"
    """Fixed: a new round every `training.updates`. Adaptive: sooner or later by recent learning
    progress, and the run ends when no mode and no axis is left to work on."""
    backbone: Literal[
        "flow", "image", "act", "diffusion", "smolvla", "pi0", "pi05", "openvla-oft"
    ] = "flow"
    """Policy: ``flow`` sees the privileged state, ``image`` two cameras and proprioception."""

    @field_validator("controls", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        """YAML reads a bare on or off as a truth value."""
        return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


class Models(Section):
    """Which chat model answers for each role; one name serves all unless a role has its own."""

    default: str = "offline"
    """``offline`` (rules, no language model), ``openai:<name>`` or ``anthropic:<name>``."""
    critic: str | None = None
    scene_builder: str | None = None
    refuter: str | None = None
    curriculum: str | None = None
    base_url: str | None = None
    """An OpenAI-compatible server; None for the provider's own."""
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] = 0.0
    timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 60.0
    max_tokens: Annotated[int, Field(ge=0)] = 2_000_000
    """Tokens of the whole run, in and out; the run ends cleanly before the call that exceeds it."""
    max_usd: Annotated[float, Field(ge=0.0)] = 20.0
    """Money of the whole run [US dollar]."""

    def for_role(self, role: str) -> str:
        """Model name of a role such as ``scene-builder``."""
        own: str | None = getattr(self, role.replace("-", "_"), None)
        return own or self.default


class Seeding(Section):
    """Planner demonstrations of the narrow seed range, then supervised fine-tuning."""

    demonstrations: Count = 50
    updates: Count = 2000
    """Gradient updates of the fine-tuning."""


class Build(Section):
    """Scene generation of a round."""

    programs: Annotated[int, Field(ge=1, le=32)] = 8
    """Generation programs a round."""
    scenes: Annotated[int, Field(ge=1, le=256)] = 8
    """Accepted scenes wanted from each program."""
    repairs: Annotated[int, Field(ge=0, le=3)] = 3
    """Times that a rejected program goes back to the scene-builder."""
    draws: Annotated[int, Field(ge=1, le=20)] = 3
    """Proposed scenes for each wanted one, at most."""


class Diagnosing(Section):
    """Diagnosis and control tests of a round."""

    max_diagnoses: Annotated[int, Field(ge=0, le=32)] = 6
    min_failures: Annotated[int, Field(ge=1)] = 2
    """Failures that make a group worth diagnosing."""
    pair_batch: Annotated[int, Field(ge=1, le=64)] = 8
    """Pairs simulated between two looks at the evidence."""
    max_pairs: Annotated[int, Field(ge=1, le=256)] = 24
    """Pairs after which a test stays undecided."""
    delta: Share = 0.15
    """Effect below which a diagnosis counts as refuted."""
    alpha: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.05
    fdr: Annotated[float, Field(gt=0.0, le=0.5)] = 0.05
    """False discovery rate over the diagnoses of a round (Benjamini-Hochberg)."""


class Training(Section):
    """Policy learning of a round. Budgets are counts, never seconds."""

    episodes: Annotated[int, Field(ge=0)] = 176
    """Lookahead episodes; 0 for none."""
    rollouts: Annotated[int, Field(ge=0)] = 0
    """Episodes of the policy itself on training scenes, beside those that are diagnosed."""
    candidates: Annotated[int, Field(ge=2, le=64)] = 10
    """Candidate chunks at each lookahead decision."""
    rejected: Annotated[int, Field(ge=0, le=64)] = 0
    """Candidates of every decision that are kept for the critic, beside the best."""
    policy_share: Share = 0.3
    """Share of a search's chunks that execute the policy's own sample, at most: never more than
    the policy's success in the round's scenes, as what fails soon leads the search nowhere."""
    updates: Count = 4000
    """Gradient updates (the K_pi of the fixed schedule)."""
    modes: Annotated[int, Field(ge=1, le=16)] = 6
    """Modes trained at once, at most."""


class Measuring(Section):
    """Evaluation."""

    in_scenes: Count = 64
    ood_scenes: Count = 160
    probe_scenes: Annotated[int, Field(ge=2, le=256)] = 8
    """Fixed probe scenes of each mode at first; the undecided are topped up to four times that."""
    band: tuple[Share, Share] = (0.1, 0.9)
    """Success rates in which a scene teaches."""
