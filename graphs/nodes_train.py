"""Nodes *seed* and *train*: make the policy, and improve it on the chosen modes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coda.graphs.artifacts import BuiltProgram
from coda.graphs.measuring import measure_sets
from coda.graphs.nodes_diagnose import FailureGroup, failure_groups
from coda.graphs.plan_facts import axis_facts, mode_facts
from coda.graphs.state import RoundState, RoundUpdate
from coda.graphs.work import Work
from coda.memory.progress import Count
from coda.memory.records import Mode
from coda.policy.backbones import load_policy, policy_label
from coda.policy.critic import ChunkCritic
from coda.policy.device import resolve_device
from coda.policy.potential import Potential
from coda.policy.replay import Replay
from coda.sim.factors import axis_of
from coda.sim.families import program_task
from coda.sim.program import GenerationProgram
from coda.sim.roles import AXES, Axis
from coda.sim.rollout import EpisodeData
from coda.sim.splits import Splits
from coda.tools.collecting import RoundBudget, Target
from coda.tools.evaluation import tally
from coda.tools.targets_file import save_targets
from coda.tools.training import TrainResult, seed_policy, train_round

MODE_SHARE = 0.25
"""Share of the search scenes that one mode gets …"""
MODES_SHARE = 0.5
"""… and that all modes get together, while there is something to explore beside them."""


def seed(work: Work, state: RoundState) -> RoundUpdate:
    """Planner demonstrations of the narrow seed range, fine-tuning, and the first measurement."""
    settings = work.deps.config.seeding
    if work.deps.config.import_memory is not None:
        _import(work, Path(work.deps.config.import_memory))
    count = settings.demonstrations * len(work.deps.config.family_tasks)
    policy = policy_label(work.deps.config.switches.backbone, work.deps.config.policy)
    work.tell(f"policy: {policy}", "fact")
    work.tell(f"device: {resolve_device(work.deps.config.device).said}", "fact")
    work.tell(f"{count} demonstrations, {settings.updates} updates", "fact")
    tasks = work.deps.config.family_tasks
    result = seed_policy(
        [work.deps.splits.seed_program(task) for task in tasks],
        work.deps.text,
        demonstrations=settings.demonstrations,
        updates=settings.updates,
        seed=work.seed("demonstrate"),
        threads=work.deps.config.threads,
        shape=work.deps.config.policy,
        backbone=work.deps.config.switches.backbone,
        device=work.deps.config.device,
    )
    name = policy_name(0)
    result.policy.save(work.deps.folder.policies / name)
    result.replay.save(work.deps.folder.replay / f"{name}.npz")
    work.charge_steps(result.simulated_steps)
    work.tell(
        f"fine-tuned on {result.demonstrations} demonstrations, loss "
        f"{result.report.loss_first:.3f} to {result.report.loss_last:.3f}"
    )
    measure_sets(work, work.deps.policy(name))
    return {"policy": name, "previous_policy": name, "updates": settings.updates}


def train(work: Work, state: RoundState) -> RoundUpdate:
    """Search the scenes of the chosen modes, guided by their potentials, and update the policy.

    A round that was killed is trained again from its start: policy, critic and replay of the rounds
    before are files, and optimisers begin afresh in every round, so it ends the same.
    """
    config = work.deps.config
    modes = choose_modes(work, state)
    groups = failure_groups(work)
    built = [group.built for group in groups]
    targets = training_targets(work, modes, built, solved_by_program(groups))
    targets = [replace(target, rollouts=rollouts_like(target, modes, groups)) for target in targets]
    targets += companions(work, targets, state["settings"]["avoid_axes"])
    replay = _replay(work)
    policy = load_policy(work.deps.folder.policies / state["policy"], device=config.device)
    work.tell(f"device: {policy.device.said}, {config.learner.precision}", "fact")
    _mark(work, modes)
    save_targets(
        work.deps.folder.training / f"{policy_name(work.round)}.json", targets, work.deps.base
    )
    result = train_round(
        policy,
        _critic(work),
        replay,
        targets,
        RoundBudget(
            episodes=config.training.episodes,
            candidates=config.training.candidates,
            rejected=config.training.rejected,
            updates=state["settings"]["updates"],
            rollouts=config.training.rollouts,
            policy_share=min(config.training.policy_share, solved_share(groups)),
        ),
        text=work.deps.text,
        splits=work.deps.splits,
        base=work.deps.base,
        previous=work.deps.shaping(policy_name(work.round - 1)),
        rollouts=[trial.episode for group in groups for trial in group.trials],
        round_index=work.round,
        seed=work.seed("train"),
        threads=config.threads,
        learner=config.learner.model_copy(update={"signal": config.switches.signal}),
        critic_shape=config.critic,
        on_progress=lambda done, total, label: work.step(done, total, f"searches, {label}"),
    )
    name = policy_name(work.round)
    policy.save(work.deps.folder.policies / name)
    result.critic.save(work.deps.folder.policies / f"{name}-critic")
    replay.save(work.deps.folder.replay / f"{name}.npz", round_index=work.round)
    work.charge_steps(result.simulated_steps)
    _tell(work, result)
    return {
        "policy": name,
        "previous_policy": state["policy"],
        "train_modes": [mode.mode_id for mode in modes],
        "updates": state["updates"] + state["settings"]["updates"],
    }


def _replay(work: Work) -> Replay:
    """Everything that the rounds before collected."""
    replay = Replay()
    for round_ in range(work.round):
        replay.load(work.deps.folder.replay / f"{policy_name(round_)}.npz")
    return replay


def _mark(work: Work, modes: Sequence[Mode]) -> None:
    """Say that modes are trained now, where nobody has pinned their status."""
    for mode in modes:
        if mode.status not in ("candidate", "training") and mode.pinned_by is None:
            work.deps.modes.set_status(
                work.key, mode.mode_id, "training", f"trained in round {work.round}"
            )


def choose_modes(work: Work, state: RoundState) -> list[Mode]:
    """Focus modes of the plan and the round's new ones, by weight; never a resting one."""
    wanted = {*state["focus_modes"], *state["changed_modes"]}
    closed = set(state["settings"]["avoid_axes"])
    facts = {fact.mode_id: fact for fact in mode_facts(work, state["settings"]["weights"])}
    modes = [
        mode
        for mode in work.deps.modes.all()
        if mode.mode_id in wanted
        and mode.status != "parked"
        and mode.axis not in closed
        and facts[mode.mode_id].weight > 0
    ]
    modes.sort(key=lambda mode: (-facts[mode.mode_id].weight, mode.mode_id))
    return modes[: work.deps.config.training.modes]


def training_targets(
    work: Work,
    modes: Sequence[Mode],
    built: Sequence[BuiltProgram],
    solved: Mapping[str, Count],
) -> list[Target]:
    """Modes with their own programs and potentials, beside the round's explored programs.

    Modes share up to `MODES_SHARE` of the scenes, by weight; the others go to the explored
    programs in proportion to how much of each the policy still fails (`solved`, by program).
    """
    facts = {fact.mode_id: fact.weight for fact in mode_facts(work, {})}
    explore = [item for item in built if item.slot["mode_id"] is None]
    share = min(MODES_SHARE, MODE_SHARE * len(modes)) if explore else 1.0
    total = sum(facts[mode.mode_id] for mode in modes) or 1.0
    targets = [
        Target(
            label=mode.mode_id,
            program=mode.omega,
            potential=Potential(mode.phi) if mode.phi is not None else work.deps.base,
            weight=share * facts[mode.mode_id] / total,
        )
        for mode in modes
    ]
    failing = [1.0 - posterior_mean(solved[item.program_id]) for item in explore]
    targets += [
        Target(
            label=item.program_id,
            program=item.program,
            potential=work.deps.base,
            weight=(1.0 - share) * weight / sum(failing),
        )
        for item, weight in zip(explore, failing, strict=True)
    ]
    return targets


def rollouts_like(
    target: Target, modes: Sequence[Mode], groups: Sequence[FailureGroup]
) -> tuple[EpisodeData, ...]:
    """The round's rollouts on a target's own program, or on its mode's axis and task."""
    axis = next((mode.axis for mode in modes if mode.mode_id == target.label), None)
    task = program_task(target.program).name
    return tuple(
        trial.episode
        for group in groups
        if group.built.program_id == target.label
        or (group.built.slot["axis"] == axis and group.built.slot["task"] == task)
        for trial in group.trials
    )


def companions(work: Work, targets: Sequence[Target], closed: Collection[Axis]) -> list[Target]:
    """Axes met in earlier rounds that nothing of this round is about, to be combined with.

    Their weight is 0: no scene is about them alone, but difficulties are also met together.
    """
    met = {axis for target in targets for axis in widened(target.program, work.deps.splits)}
    return [
        Target(
            label=f"known {axis}",
            program=work.deps.splits.program((axis,)),
            potential=work.deps.base,
            weight=0.0,
        )
        for axis in AXES
        if axis not in met
        and axis not in closed
        and axis_facts(work, axis).last_explored is not None
    ]


def widened(program: GenerationProgram, splits: Splits) -> set[Axis]:
    """Axes on which a program leaves its task's seed range."""
    seed = splits.seed_program(program_task(program).name)
    narrow = {edit.path: edit.sampler for edit in seed.edits}
    return {axis_of(edit.path) for edit in program.edits if edit.sampler != narrow.get(edit.path)}


def posterior_mean(count: Count) -> float:
    """Mean of the success rate under Jeffreys' prior; never 0 or 1."""
    return (count.successes + 0.5) / (count.trials + 1.0)


def solved_share(groups: Sequence[FailureGroup]) -> float:
    """Mean success of the policy over the round's programs; 1 where none was rolled out."""
    rates = [posterior_mean(count) for count in solved_by_program(groups).values()]
    return sum(rates) / len(rates) if rates else 1.0


def solved_by_program(groups: Sequence[FailureGroup]) -> dict[str, Count]:
    """Successes of the round's rollouts by program."""
    return {group.built.program_id: tally(group.trials) for group in groups}


def _import(work: Work, run_dir: Path) -> None:
    modes = work.deps.modes.import_from(work.key, run_dir)
    names = ", ".join(f"{mode.mode_id} {mode.title}" for mode in modes) or "none"
    work.decide(
        "import-memory",
        f"took over {len(modes)} modes from {run_dir}: {names}",
        "person",
        modes=[mode.mode_id for mode in modes],
    )


def policy_name(round_: int) -> str:
    """File name of the policy after a round; 0 is the fine-tuned seed policy."""
    return f"r{round_:02d}"


def _critic(work: Work) -> ChunkCritic | None:
    """The critic of the round before; none in the first round."""
    if work.round <= 1:
        return None
    path = work.deps.folder.policies / f"{policy_name(work.round - 1)}-critic"
    return ChunkCritic.load(path, device=work.deps.config.device)


def _tell(work: Work, result: TrainResult) -> None:
    for search in result.searches:
        stalled = ", ".join(f"{n} at {stage}" for stage, n in sorted(search.stalled.items()))
        work.decide(
            "search",
            f"{search.label}: searched {search.episodes} scenes, solved {search.solved}, "
            f"{search.labels} labels"
            + (f"; {search.resets} began at the failing stage" if search.resets else "")
            + (f"; the policy led {search.led} first" if search.led else "")
            + (f"; stalled {stalled}" if stalled else ""),
            "rule:lookahead",
            target=search.label,
        )
    if result.report is not None:
        summary = {
            key: round(value, 6) if isinstance(value, float) else value
            for key, value in result.report.summary().items()
            if not key.endswith(("seconds", "per_s"))
        }
        work.decide(
            "update",
            f"{result.report.actor_updates} actor and {result.report.critic_updates} critic "
            f"updates on {result.report.transitions} transitions",
            "rule:learner",
            **summary,
        )
