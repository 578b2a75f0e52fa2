"""Every test runs on one thread, without keys, and with no way out to a network; a sample run."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch and onnxruntime are imported

from coda.graphs.config import make_config
from coda.graphs.runfolder import create
from coda.memory.records import ArmResult, ControlTest, Diagnosis, Mode, Verdict
from coda.memory.rows import (
    AgentCallRow,
    ControlTestRow,
    DiagnosisRow,
    EpisodeRow,
    ModeVersionRow,
    ProgressRow,
    ProposalRow,
    SceneRow,
)
from coda.memory.rundb import RunDb
from coda.policy.potential_base import base_program
from coda.sim.families import family
from coda.sim.program import Edit, Fixed, GenerationProgram, Issue, Uniform

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")  # the same examples in every run

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
LOOPBACK = ("127.", "localhost", "::1")
ARMS: tuple[Literal["target", "control", "placebo"], ...] = ("target", "control", "placebo")
HOSTILE = "<script>alert('x')</script>"
"""What a model might write; it must never become markup."""


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(LOOPBACK):
            raise AssertionError(f"a test tried to reach {address!r}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture
def sample_run(tmp_path: Path) -> Path:
    """Folder of a run of two rounds, written through the run database's own door."""
    config = make_config("debug", name="sample", runs_dir=str(tmp_path / "runs"))
    folder, _ = create(config)
    with RunDb(folder.db) as db:
        SampleRun(db).write()
    return folder.path


class SampleRun:
    """Writes the rows that a run's nodes would write."""

    def __init__(self, db: RunDb) -> None:
        self.db = db
        self.omega = GenerationProgram(
            name="wide yaw",
            family="pick-place",
            edits=(Edit(path="sigma.target.yaw", sampler=Uniform(low=-1.2, high=1.2)),),
        )

    def write(self) -> None:
        """Seed policy, one round with a confirmed and a refuted diagnosis, one that goes on."""
        self._measure("r00:seed", 0, {"in": (13, 16), "ood": (2, 32)})
        self.db.direct(
            "make targets smaller", {"kind": "factor-bias", "path": "alpha.target.scale"}
        )
        self._node("r01:plan", self._plan)
        self._node("r01:build", self._build)
        self._node("r01:rollout", self._rollout)
        self._node("r01:diagnose", self._diagnose)
        self._node("r01:refute", self._refute)
        self._node("r01:consolidate", self._consolidate)
        self._measure("r01:measure", 1, {"in": (15, 16), "ood": (17, 32)})
        self.db.begin_node("r02:plan")

    def _node(self, key: str, body: Any) -> None:
        self.db.begin_node(key)
        body(key)
        self.db.charge(key, "sim_steps", 4000.0)
        self.db.charge(key, "sim_s", 200.0)
        self.db.charge(key, "cpu_s", 3.5)
        self.db.finish_node(key)

    def _call(self, key: str, seq: int, role: str, task: str, **fields: Any) -> str:
        row = AgentCallRow(
            call_id=f"{key}#{seq:03d}",
            node_key=key,
            seq=seq,
            role=role,
            task=task,
            model="offline (rules)",
            prompt_sha="0" * 16,
            messages=(
                {"role": "system", "text": f"You are the {role}."},
                {"role": "human", "text": "facts", "images": [{"sha256": "ab12", "path": None}]},
                {"role": "ai", "text": "", "tool_calls": [{"name": "rollouts", "args": {"n": 2}}]},
                {"role": "note", "kind": "invalid", "text": "axis: not one of the allowed"},
            ),
            answer={"decision": "continue", "rationale": HOSTILE},
        )
        self.db.add(replace(row, **fields))
        return row.call_id

    def _measure(self, key: str, round_: int, counts: dict[str, tuple[int, int]]) -> None:
        self.db.begin_node(key)
        for split, (successes, trials) in counts.items():
            labels = {"all": (successes, trials)}
            if split == "ood":
                labels |= {"yaw": (successes // 2, trials // 2), "size": (1, trials // 4)}
            for label, (s, n) in labels.items():
                self.db.add(
                    ProgressRow(
                        node_key=key, round=round_, split="in" if split == "in" else "ood",
                        label=label, successes=s, trials=n,
                    )
                )  # fmt: skip
        self.db.finish_node(key)

    def _plan(self, key: str) -> None:
        self.db.consume(key)
        self._call(key, 0, "curriculum", "plan", tokens_in=900, tokens_out=80, cost_usd=None)
        self.db.decide(key, "plan", "explore yaw", "curriculum", {"axes": ["yaw"]})

    def _build(self, key: str) -> None:
        call = self._call(key, 0, "scene-builder", "program", status="retried", attempts=2)
        issue = Issue(
            code="overlap", path="sigma.target.xy", value=HOSTILE, limit="0 mm", remedy="move apart"
        )
        self.db.add(
            ProposalRow(
                proposal_id="r01:p00.0", node_key=key, program=self.omega, accepted=8, rejected=3,
                issues=(issue,), codes={issue.code: 2}, mode_id="m001", call_id=call, seconds=1.5,
            )
        )  # fmt: skip

    def _rollout(self, key: str) -> None:
        scene = family("pick-place").seed
        self.db.add(SceneRow(digest=scene.digest(), node_key=key, scene=scene))
        for i in range(4):
            self.db.add(
                EpisodeRow(
                    episode_id=f"{key}:{i:04d}", node_key=key, purpose="diagnose",
                    scene_digest=scene.digest(), success=i == 0, steps=60 + i, progress=0.3,
                    axis="yaw", program="r01:p00",
                )
            )  # fmt: skip

    def _diagnose(self, key: str) -> None:
        for i, axis in enumerate(("yaw", "size")):
            call = self._call(
                key, i, "critic", "diagnose", links={"episodes": ["r01:rollout:0001"]}
            )
            diagnosis = Diagnosis(
                diagnosis_id=f"r01:d{i:02d}",
                round=1,
                failed_stage="grasp",
                mechanism="misaligned-grasp",
                axis="yaw" if axis == "yaw" else "size",
                factor_path=f"sigma.target.{axis}",
                cure=(Edit(path="sigma.target.yaw", sampler=Fixed(value=0.0)),),
                expected_effect=0.6,
                confidence="high",
                explanation=f"The gripper does not turn with the object. {HOSTILE}",
                evidence=("r01:rollout:0001", "r01:rollout:0001:grasped(target)@31"),
            )
            self.db.add(
                DiagnosisRow(
                    diagnosis_id=diagnosis.diagnosis_id,
                    node_key=key,
                    diagnosis=diagnosis,
                    call_id=call,
                )
            )

    def _refute(self, key: str) -> None:
        cases: Sequence[tuple[int, Verdict, tuple[int, int, int]]] = (
            (0, "confirmed", (2, 13, 3)),
            (1, "refuted", (8, 8, 7)),
        )
        for i, verdict, wins in cases:
            call = self._call(key, i, "refuter", "design")
            arms = tuple(
                ArmResult(name=name, successes=s, trials=16, progress_mean=s / 16)
                for name, s in zip(ARMS, wins, strict=True)
            )
            test = ControlTest(
                test_id=f"r01:t{i:02d}",
                diagnosis_id=f"r01:d{i:02d}",
                arms=arms,
                outcome="success",
                effect=(wins[1] - wins[0]) / 16,
                interval=(-0.1, 0.9),
                e_value=41.0,
                e_value_refute=0.02,
                p_value=0.024,
                verdict=verdict,
                reason="the control arm solves what the target arm does not",
            )
            self.db.add(
                ControlTestRow(
                    test_id=test.test_id, node_key=key, diagnosis_id=test.diagnosis_id,
                    verdict=verdict, test=test, call_id=call,
                )
            )  # fmt: skip

    def _consolidate(self, key: str) -> None:
        mode = Mode(
            mode_id="m001",
            title="misaligned grasp at large yaw",
            family="pick-place",
            status="validated",
            axis="yaw",
            factor_path="sigma.target.yaw",
            stage="grasp",
            mechanism="misaligned-grasp",
            explanation="The fingers close across the object's diagonal.",
            omega=self.omega,
            diagnosis_ids=("r01:d00",),
            created_round=1,
            reason="confirmed by r01:t00",
        )
        trained = mode.model_copy(
            update={
                "status": "training",
                "phi": base_program("pick-place"),
                "phi_version": 1,
                "probe_history": ((1, 1, 8), (2, 6, 8)),
                "reason": "in the success band",
            }
        )
        for version, one in enumerate((mode, trained), start=1):
            self.db.add(ModeVersionRow(mode_id="m001", version=version, node_key=key, mode=one))
