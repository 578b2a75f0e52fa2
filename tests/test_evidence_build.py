"""Evidence of real rollouts, the critic's reading of it, and potentials compiled from that."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from coda.agents import critic, curriculum
from coda.agents.record import NoAnswer
from coda.agents.rules_potential import RECIPES
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.potential_check import check_potential
from coda.policy.program import TrainingProgram
from coda.sim.engine import BatchSim
from coda.sim.errors import UnknownName
from coda.sim.families import family
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import Edit, Fixed, GenerationProgram, Uniform
from coda.sim.rollout import EpisodeData, Outcome, run_episodes
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits
from coda.tools.evidence import Evidence, EvidenceError, build_evidence
from coda.tools.toolbox import critic_tools
from tests.agents_world import by_rules, make_diagnosis, make_mode, scripted

SEED = family("pick-place").seed
BASE = Potential(base_program("pick-place"))


@dataclasses.dataclass(frozen=True)
class World:
    """Rollouts of a policy that never turns the gripper, and of the planner, in turned scenes."""

    program: GenerationProgram
    stiff: list[EpisodeData]
    planner: list[EpisodeData]

    @property
    def evidence(self) -> Evidence:
        ids = [f"e{i}" for i in range(len(self.stiff))]
        return build_evidence(self.program, self.stiff, BASE, SEED, episode_ids=ids)


@pytest.fixture(scope="module")
def world() -> World:
    splits = Splits()
    wide = splits.program(["yaw"])
    turned = Uniform(low=-0.7, high=0.7)  # some of it is small enough to do without turning
    program = wide.model_copy(
        update={
            "edits": tuple(
                Edit(path=edit.path, sampler=turned) if edit.path == "sigma.target.yaw" else edit
                for edit in wide.edits
            )
        }
    )
    rng = np.random.default_rng(0)
    sim = BatchSim([sample_scene(program, rng, guard=splits) for _ in range(8)])
    planner = ScriptedPlanner()

    def stiff(frame: Any, active: Any) -> Any:
        chunk = planner(frame, active)
        chunk[..., 5] = 0.0
        return chunk

    return World(
        program,
        run_episodes(sim, stiff, keep_fine=True),
        run_episodes(sim, planner, keep_fine=True),
    )


def test_evidence_tells_what_happened_and_what_differs(world: World) -> None:
    evidence = world.evidence
    assert 2 <= len(evidence.failures) < 8
    assert evidence.contrasts[0].axis == "yaw"
    assert evidence.contrasts[0].effect > 1.0
    assert evidence.contrasts[0].progress_corr < -0.5
    failure = evidence.failures[0]
    assert failure.stage in evidence.stages[:3]
    assert failure.contacts["lost_grasp"] == "never-held"
    success = evidence.successes[0]
    assert success.phi_max > 0.9
    refs = evidence.references()
    assert all(event.ref in refs for event in success.events)
    assert any(":grasped(target)@" in ref for ref in refs)
    assert evidence.episode("e0").episode_id == "e0"
    with pytest.raises(UnknownName, match="no episode named 'e99'"):
        evidence.episode("e99")


def test_the_facts_are_compact_and_the_same_twice(world: World) -> None:
    from coda.agents.prompting import facts_block

    block = facts_block("diagnose", world.evidence.facts())
    assert block == facts_block("diagnose", world.evidence.facts())
    assert len(block) < 12_000


def test_the_critics_tools_answer_and_say_what_exists(world: World) -> None:
    timeline, compare = critic_tools(world.evidence)
    assert '"phi_max"' in timeline.invoke({"episode_id": "e1"})
    assert '"contrasts"' in compare.invoke({})
    with pytest.raises(UnknownName):
        timeline.invoke({"episode_id": "nobody"})


def test_the_rule_blames_yaw_and_says_that_it_is_a_rule(world: World) -> None:
    diagnosis = critic.diagnose(by_rules(), world.evidence, "r01:d01", 1)
    assert (diagnosis.axis, diagnosis.factor_path) == ("yaw", "sigma.target.yaw")
    assert diagnosis.mechanism == "misaligned-grasp"
    assert diagnosis.cure[0].sampler == Fixed(value=0.0)
    assert diagnosis.explanation.startswith("Offline rule on privileged simulator evidence")
    assert set(diagnosis.evidence) <= world.evidence.references()


def test_a_diagnosis_that_cites_nothing_real_goes_back(world: World) -> None:
    evidence = world.evidence
    good = {
        "failed_stage": evidence.failures[0].stage,
        "mechanism": "misaligned-grasp",
        "axis": "yaw",
        "expected_effect": "large",
        "confidence": "high",
        "explanation": "The gripper stays as it is while the target is turned.",
        "evidence": [evidence.failures[0].episode_id],
    }
    bad = {**good, "failed_stage": "fly", "evidence": ["e77:grasped(target)@3"]}
    caller, model = scripted(AI_TEXT, bad, good)
    diagnosis = critic.diagnose(caller, evidence, "r01:d01", 1)
    assert diagnosis.evidence == (evidence.failures[0].episode_id,)
    words = str(model.prompts[-1][-1].text)
    assert "'fly' is no stage; choose one of reach" in words
    assert "'e77:grasped(target)@3' does not exist" in words
    caller, _ = scripted(AI_TEXT, bad, bad, bad)
    with pytest.raises(NoAnswer, match="is no stage"):
        critic.diagnose(caller, evidence, "r01:d01", 1)


AI_TEXT: dict[str, Any] = {"thinking": "no tools needed"}


def test_images_are_attached_only_for_models_that_see(world: World) -> None:
    png = b"\x89PNG\r\n\x1a\n"
    seen = dataclasses.replace(world.evidence, keyframes=(png,), keyframe_refs=("e0@0",))
    assert seen.facts()["images"] == ["e0@0"]
    critic.diagnose(by_rules(), seen, "r01:d01", 1)
    answer = {
        "failed_stage": "reach",
        "mechanism": "stall",
        "axis": "yaw",
        "expected_effect": "small",
        "confidence": "low",
        "explanation": "It stands still.",
        "evidence": [seen.failures[0].episode_id],
    }
    caller, model = scripted(AI_TEXT, answer)
    critic.diagnose(caller, seen, "r01:d01", 1)
    content = model.prompts[0][-1].content
    assert isinstance(content, list)
    assert content[1]["type"] == "image"  # type: ignore[index]


def test_evidence_needs_ids_and_a_simulation_that_did_not_crash(world: World) -> None:
    with pytest.raises(EvidenceError, match="8 episodes need as many different ids; got 1"):
        build_evidence(world.program, world.stiff, BASE, SEED, episode_ids=["e0"])
    crashed = [dataclasses.replace(world.stiff[0], outcome=Outcome.CRASHED)]
    with pytest.raises(EvidenceError, match="all 1 simulations crashed"):
        build_evidence(world.program, crashed, BASE, SEED, episode_ids=["e0"])


def frames(episodes: list[EpisodeData]) -> list[SimFrame]:
    return [
        SimFrame.unpack(np.concatenate((e.frames[:1], e.fine)))
        for e in episodes
        if e.fine is not None
    ]


@pytest.mark.parametrize("mechanism", sorted(RECIPES))
def test_every_recipe_passes_the_potentials_check_within_two_repairs(
    world: World, mechanism: Any
) -> None:
    successes = frames([e for e in world.planner if e.success])
    failures = frames([e for e in world.stiff if not e.success])
    diagnosis = make_diagnosis(mechanism=mechanism)
    program: TrainingProgram | None = None
    issues: list[Any] = []
    for attempt in range(3):
        program = curriculum.compile_potential(
            by_rules(), make_mode(), diagnosis, BASE.program, issues,
            attempt=max(1, attempt), previous=program,
        )  # fmt: skip
        issues = check_potential(program, successes, failures, failed_stage="reach")
        if not issues:
            break
    assert [i.line() for i in issues] == []
    assert program is not None
    base_shares = {stage.name: stage.share for stage in BASE.program.stages}
    changed = len(program.stages) != len(base_shares) or program.tools != BASE.program.tools
    assert changed or any(s.share > base_shares[s.name] + 0.01 for s in program.stages)
    assert diagnosis.explanation in program.source_text
