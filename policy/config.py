"""Settings of the policy, the critic and the learner: frozen, named, with a debug preset."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from coda.policy.device import Precision

Signal = Literal[
    "text2potential", "description", "dense", "sparse", "frozen-actor", "no-refinement"
]
"""Training signal (design, section 12). `description` and `no-refinement` learn exactly as
`text2potential` does; they differ in which potential the caller hands over, and whether it is
refined between rounds."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0.0, le=1.0)]


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PictureConfig(_Config):
    """Pictures and convolutions of the image policy; other backbones do not read it."""

    size: Annotated[int, Field(ge=32, le=256, multiple_of=4)] = 64
    """Height and width [pixels] of each camera's picture."""
    channels: Annotated[int, Field(ge=4, le=512, multiple_of=2)] = 32
    """Feature maps of each camera."""
    draws: Positive = 8
    """Draws of noise and time for each encoded picture in the loss."""


class PolicyConfig(_Config):
    """Shape of a policy: a flow over chunks, behind the encoder of its backbone."""

    width: Positive = 256
    """Hidden units."""
    encoder_blocks: Count = 0
    """Residual blocks that see the observation only: run once per state, not per sample."""
    blocks: Positive = 2
    """Residual blocks that also see the noisy chunk."""
    horizon: Annotated[int, Field(ge=2, le=32)] = 8
    arm_coefficients: Positive = 4
    """DCT coefficients kept of each arm dimension."""
    gripper_coefficients: Positive = 4
    text_width: Positive = 16
    """Units that the instruction's embedding is projected to."""
    flow_steps: Positive = 6
    """Euler steps of sampling."""
    pictures: PictureConfig = PictureConfig()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("arm_coefficients", "gripper_coefficients"):
            if getattr(self, name) > self.horizon:
                raise ValueError(f"{name} = {getattr(self, name)} exceeds horizon {self.horizon}")
        return self


class SftConfig(_Config):
    """Supervised fine-tuning on demonstrations."""

    updates: Count = 3000
    batch_size: Positive = 128
    learning_rate: Rate = 1e-3
    weight_decay: Annotated[float, Field(ge=0.0)] = 1e-4
    ema_decay: Share = 0.995
    warmup: Count = 100
    """Updates over which the rate rises; it then falls along a cosine to 5 %."""
    clip_norm: Annotated[float, Field(gt=0.0)] = 1.0


class CriticConfig(_Config):
    """Shape of the twin critics."""

    width: Positive = 256
    blocks: Positive = 2
    max_stages: Positive = 14
    target_decay: Share = 0.99
    """Share of the old target network kept at each update."""


class LearnerConfig(_Config):
    """One round of chunk value learning and actor updates."""

    signal: Signal = "text2potential"
    discount: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.99
    """Gamma per control step."""
    cycles: Positive = 2
    """Alternations of critic phase and actor phase in a round."""
    critic_warmup: Count = 200
    """Extra critic updates before a round's first actor update."""
    critic_updates: Count = 200
    """Critic updates per cycle."""
    actor_updates: Count = 500
    """Actor updates per cycle."""
    batch_size: Positive = 128
    critic_learning_rate: Rate = 5e-4
    actor_learning_rate: Rate = 1e-3
    weight_decay: Annotated[float, Field(ge=0.0)] = 1e-4
    ema_decay: Share = 0.995
    clip_norm: Annotated[float, Field(gt=0.0)] = 1.0
    candidates: Annotated[int, Field(ge=2, le=64)] = 8
    """N chunks of the policy per state: the baseline mean_N Q(s, .) and the bootstrap."""
    backup: Literal["mean", "max"] = "mean"
    """Bootstrap from one of the N drawn at random (the policy's own value), or from the best
    (the value of best-of-N selection, N critic evaluations more)."""
    advantage: Literal["critic", "step"] = "critic"
    """Critic: A = Q(s, a) - mean_N Q(s, .), which asks the critic what the chunk is worth. Step:
    A = r + gamma^k V(s') - V(s) with V = Phi + mean_N Q'(s, .), from where the chunk really led
    (the simulator is deterministic)."""
    temperature: Annotated[float, Field(gt=0.0)] = 3.0
    """Weights are exp(A / (temperature * std A)), clipped."""
    max_weight: Annotated[float, Field(ge=1.0)] = 3.0
    min_advantage_std: Annotated[float, Field(gt=0.0)] = 0.01
    """Floor of std A: advantages that are all noise must not be blown up."""
    anchor_share: Share = 0.25
    """Share of each actor batch drawn from planner demonstrations with weight 1."""
    replay_share: Share = 0.6
    """Share of the rest of a batch that comes from earlier rounds."""
    failure_weight: Share = 0.1
    """Weight in the actor of chunks from episodes and searches that failed (not the planner's)."""
    adopt_updates: Count = 200
    """Updates that shift the critic by Phi_old - Phi_new when the potential has changed."""
    dense_scale: Annotated[float, Field(gt=0.0)] = 1.0
    """Scale of the free-form dense reward (signal = dense)."""
    precision: Precision = "float32"
    """Of the matrix products in updates of actor and critics; everything else is float32."""

    @property
    def shaped(self) -> bool:
        """True where the critic learns Q' under the potential."""
        return self.signal not in ("sparse", "dense")

    @property
    def trains_actor(self) -> bool:
        """False for the frozen actor, which only selects by Q."""
        return self.signal != "frozen-actor"


DEBUG_POLICY = PolicyConfig(width=32, encoder_blocks=0, blocks=1)
"""Small shapes for tests and the debug run."""
DEBUG_CRITIC = CriticConfig(width=32, blocks=1)
DEBUG_SFT = SftConfig(updates=20, batch_size=16, warmup=2)
DEBUG_LEARNER = LearnerConfig(
    cycles=1, critic_warmup=4, critic_updates=4, actor_updates=4, batch_size=16, candidates=4
)
