"""What the tests of agents share: callers by rules or script, and a small recorded run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from coda.agents.caller import AgentCaller
from coda.agents.journal import MemoryJournal
from coda.agents.offline import OfflineChatModel
from coda.memory.records import ArmResult, ControlTest, Diagnosis, Mode
from coda.memory.rows import (
    ControlTestRow,
    DiagnosisRow,
    EpisodeRow,
    ModeVersionRow,
    ProgressRow,
    SceneRow,
)
from coda.memory.rundb import RunDb
from coda.sim.families import family
from coda.sim.program import Edit, Fixed
from coda.sim.splits import Splits


class ScriptedModel(BaseChatModel):
    """Answers from a list and keeps what it was sent; no server, no tools unless scripted."""

    answers: list[Any]
    """Dicts (become JSON text) or messages, in order."""
    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Tools change nothing."""
        del tools, kwargs  # Unused.
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager, kwargs  # Unused.
        self.prompts.append(messages)
        answer = self.answers.pop(0)
        message = answer if isinstance(answer, AIMessage) else AIMessage(json.dumps(answer))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        whole = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
        assert isinstance(whole, AIMessage)
        calls = [
            tool_call_chunk(name=c["name"], args=json.dumps(c["args"]), id=c["id"], index=i)
            for i, c in enumerate(whole.tool_calls)
        ]
        yield ChatGenerationChunk(
            message=AIMessageChunk(content=str(whole.text), tool_call_chunks=calls)
        )


def by_rules() -> AgentCaller:
    """A caller that the offline rules answer."""
    return AgentCaller(OfflineChatModel(), MemoryJournal(), node_key="r01:test")


def scripted(*answers: Any) -> tuple[AgentCaller, ScriptedModel]:
    """A caller that answers from a script."""
    model = ScriptedModel(answers=list(answers))
    return AgentCaller(model, MemoryJournal(), node_key="r01:test"), model


def make_diagnosis(**changes: Any) -> Diagnosis:
    """A diagnosis of misaligned grasps."""
    fields: dict[str, Any] = {
        "diagnosis_id": "r01:d01",
        "round": 1,
        "failed_stage": "reach",
        "mechanism": "misaligned-grasp",
        "axis": "yaw",
        "factor_path": "sigma.target.yaw",
        "cure": (Edit(path="sigma.target.yaw", sampler=Fixed(value=0.0)),),
        "expected_effect": 0.6,
        "confidence": "high",
        "explanation": "The gripper does not turn to the target's yaw.",
        "evidence": ("e1",),
    }
    return Diagnosis(**{**fields, **changes})


def make_mode(**changes: Any) -> Mode:
    """A mode on yaw."""
    fields: dict[str, Any] = {
        "mode_id": "m001",
        "title": "misaligned grasp of turned targets",
        "family": "pick-place",
        "status": "training",
        "axis": "yaw",
        "factor_path": "sigma.target.yaw",
        "stage": "reach",
        "mechanism": "misaligned-grasp",
        "explanation": "The gripper does not turn.",
        "omega": Splits().program(["yaw"], "m001-omega-v1"),
        "diagnosis_ids": ("r01:d01",),
        "created_round": 1,
    }
    return Mode(**{**fields, **changes})


def make_test() -> ControlTest:
    """A confirmed control test."""
    arms = (
        ArmResult(name="target", successes=1, trials=8, progress_mean=0.3),
        ArmResult(name="control", successes=7, trials=8, progress_mean=0.9),
        ArmResult(name="placebo", successes=1, trials=8, progress_mean=0.3),
    )
    return ControlTest(
        test_id="r01:d01:t", diagnosis_id="r01:d01", arms=arms, outcome="success", effect=0.75,
        interval=(0.3, 1.0), e_value=40.0, e_value_refute=0.1, p_value=0.025, verdict="confirmed",
        reason="e-value 40 for an effect",
    )  # fmt: skip


def make_run(run_dir: Path, *, finished: bool = False) -> None:
    """Record a run of two rounds with one parked mode and one in training."""
    run_dir.mkdir(parents=True)
    (run_dir / "config.yaml").write_text("family: pick-place\nrounds: 3\n", encoding="utf-8")
    if finished:
        (run_dir / "result.json").write_text("{}", encoding="utf-8")
    seed = family("pick-place").seed
    with RunDb(run_dir / "run.db") as db:
        db.begin_node("r01:rollout")
        db.add(SceneRow(digest=seed.digest(), node_key="r01:rollout", scene=seed))
        for i in range(8):
            db.add(_episode(f"r01:rollout:{i:04d}", seed.digest(), "yaw" if i < 4 else "goal", i))
        db.finish_node("r01:rollout")
        db.begin_node("r01:refute")
        db.add(
            DiagnosisRow(
                diagnosis_id="r01:d01", node_key="r01:refute", diagnosis=make_diagnosis()
            ),
            ControlTestRow(
                test_id="r01:d01:t", node_key="r01:refute", diagnosis_id="r01:d01",
                verdict="confirmed", test=make_test(),
            ),
        )  # fmt: skip
        db.decide("r01:refute", "plan", "explore yaw and goal", "curriculum")
        db.finish_node("r01:refute")
        db.begin_node("r02:consolidate")
        first = make_mode(probe_history=((1, 2, 8),))
        parked = make_mode(
            mode_id="m002", status="parked", axis="goal", title="carries past far goals",
            mechanism="transport-error", stage="carry", probe_history=((1, 0, 8), (2, 0, 8)),
            reason="two probes below the band without progress",
        )  # fmt: skip
        db.add(
            ModeVersionRow(mode_id="m001", version=1, node_key="r02:consolidate", mode=first),
            ModeVersionRow(mode_id="m002", version=1, node_key="r02:consolidate", mode=parked),
            ProgressRow(
                node_key="r02:consolidate", round=2, split="ood", label="all", successes=12,
                trials=64,
            ),
        )  # fmt: skip
        db.finish_node("r02:consolidate")


def _episode(name: str, digest: str, axis: str, index: int) -> EpisodeRow:
    return EpisodeRow(
        episode_id=name, node_key="r01:rollout", purpose="diagnose", scene_digest=digest,
        success=index % 4 == 0, steps=100 + index, progress=0.1 * index, axis=axis, program=axis,
    )  # fmt: skip
