"""The comparison of training signals: what each may use, equal budgets, and its tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coda.bench import curriculum, signals_table
from coda.bench.curriculum import CurriculumError
from coda.bench.signals import (
    SIGNALS,
    Budget,
    Course,
    SignalsError,
    _jobs,
    read_courses,
    targets_for,
    train_signal,
)
from coda.bench.signals_table import Spread, draw_curves, mean_curve, table, updates_to
from coda.graphs.config import make_config
from coda.policy.flow import FlowChunkPolicy
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.text import TextEncoder
from coda.sim.errors import UnknownName
from coda.sim.splits import Splits
from coda.tools.collecting import Target
from coda.tools.targets_file import save_targets

BASE = Potential(base_program("pick-place"))


def named(name: str) -> Potential:
    program = base_program("pick-place")
    shares = [stage.share for stage in reversed(program.stages)]
    stages = [
        s.model_copy(update={"share": a}) for s, a in zip(program.stages, shares, strict=True)
    ]
    return Potential(program.model_copy(update={"name": name, "stages": tuple(stages)}))


def target(label: str, potential: Potential) -> Target:
    return Target(label=label, program=Splits().program(["goal"]), potential=potential)


def recorded(folder: Path, rounds: int = 2) -> Path:
    """The curriculum of a run folder, in which each round refined one mode's potential."""
    run = folder / "run"
    run.mkdir(parents=True)
    learner = {"cycles": 2, "critic_warmup": 2, "critic_updates": 2, "candidates": 2}
    config = make_config(
        "debug", seed=3, name=run.name, runs_dir=str(folder), learner={**learner, "batch_size": 8}
    )
    (run / "config.yaml").write_text(config.to_yaml())
    for round_ in range(1, rounds + 1):
        own = named(f"m001-v{round_}")
        save_targets(
            run / "training" / f"r{round_:02d}.json",
            [target("m001", own), target("explore", BASE)],
            BASE,
        )
    curriculum.main([str(run), str(folder / "curriculum.json")])
    return folder / "curriculum.json"


def test_every_signal_sees_the_potentials_that_are_its_own(tmp_path: Path) -> None:
    courses = read_courses(recorded(tmp_path), [3, 4], rounds=2)
    assert [(course.family, course.seed) for course in courses] == [
        ("pick-place", 3),
        ("pick-place", 4),
    ]
    course = courses[0]

    def names(signal: Any) -> list[str]:
        return [t.potential.program.name for t in targets_for(course, signal, 2)]

    base = BASE.program.name
    assert names("text2potential") == ["m001-v2", base]
    assert names("no-refinement") == ["m001-v1", base]
    assert names("description") == [base, base]
    programs = [t.program for t in course.rounds[1]]
    for signal in SIGNALS:
        assert [t.program for t in targets_for(course, signal, 2)] == programs


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    file = recorded(tmp_path, rounds=1)
    with pytest.raises(SignalsError, match="recorded 1 rounds of training, 3 are wanted"):
        read_courses(file, [0], rounds=3)
    result = subprocess.run(
        [sys.executable, "-m", "coda.bench.signals", str(file), "--rounds", "3"],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    with pytest.raises(CurriculumError, match="No such file"):
        curriculum.load(tmp_path / "none.json")
    file.write_text(file.read_text().replace('"pick-place"', '"pick-up"', 1))
    with pytest.raises(UnknownName, match="pick-up"):
        curriculum.load(file)
    file.write_text("{}")
    with pytest.raises(CurriculumError, match="family"):
        curriculum.load(file)
    (tmp_path / "run" / "training" / "r01.json").unlink()
    with pytest.raises(CurriculumError, match="no trained round"):
        curriculum.record(tmp_path / "run")


def test_the_start_of_a_curriculum_depends_on_its_seed_alone(tmp_path: Path) -> None:
    read = curriculum.load(recorded(tmp_path))
    assert read.backbone == "flow"
    text = TextEncoder()
    starts = [read.start(text, seed, threads=threads) for seed, threads in ((0, 1), (0, 2), (1, 1))]
    weights = [
        b"".join(t.numpy().tobytes() for t in start.policy.state_dict().values())
        for start in starts
        if isinstance(start.policy, FlowChunkPolicy)
    ]
    assert weights[0] == weights[1] != weights[2]


def test_a_frozen_actor_is_not_searched_for(tmp_path: Path) -> None:
    jobs = _jobs(read_courses(recorded(tmp_path), [0], 2), SIGNALS, ("off", "on"))
    assert len(jobs) == 2 * len(SIGNALS) - 1
    assert ("frozen-actor", True) not in [(signal, lookahead) for _, signal, lookahead in jobs]


def small_course(tmp_path: Path) -> Course:
    return read_courses(recorded(tmp_path), [3], rounds=2)[0]


BUDGET = Budget(rounds=2, steps=400, updates=4, candidates=3, scenes=2, converged_updates=4)


@pytest.mark.slow
@pytest.mark.parametrize("lookahead", [False, True])
def test_signals_spend_the_same_steps_and_updates(tmp_path: Path, lookahead: bool) -> None:
    course = small_course(tmp_path)
    records = [train_signal(course, signal, lookahead, BUDGET) for signal in ("sparse", "dense")]
    for record in records:
        json.dumps(record)
        assert [p["updates"] for p in record["curve"]] == [0, 4, 8]
        assert record["curve"][-1]["simulated_steps"] > 0
    assert records[0]["curve"][0]["ood"] == records[1]["curve"][0]["ood"]
    assert records[0]["agreement"] is None
    assert 0.0 <= records[1]["agreement"]["same"] <= 1.0


@pytest.mark.slow
def test_a_frozen_actor_stays_and_selects(tmp_path: Path) -> None:
    record = train_signal(small_course(tmp_path), "frozen-actor", False, BUDGET)
    assert record["curve"][-1]["report"]["actor_updates"] == 0


def record(family: str, signal: str, seed: int, ood: list[float], **more: Any) -> dict[str, Any]:
    curve = [
        {"round": i, "updates": 1000 * i, "simulated_steps": 500 * i, "ood": value}
        for i, value in enumerate(ood)
    ]
    return {
        "family": family,
        "signal": signal,
        "seed": seed,
        "lookahead": False,
        "commit": "abc",
        "curve": curve,
        "agreement": None,
        **more,
    }


def test_updates_to_a_success_are_read_off_the_curve() -> None:
    assert updates_to(record("f", "sparse", 0, [0.0, 0.2, 0.3])) == 1500.0
    assert updates_to(record("f", "sparse", 0, [0.3, 0.2])) == 0.0
    assert np.isnan(updates_to(record("f", "sparse", 0, [0.0, 0.1])))


def test_the_table_averages_families_by_seeds_that_all_have() -> None:
    agreed = {"same": 0.9, "ceiling": 0.95, "same_decisive": 0.99, "value_kept": 0.97}
    records = [
        record("pick-place", "text2potential", 0, [0.1, 0.5], agreement=agreed),
        record("pick-place", "text2potential", 1, [0.1, 0.7], agreement=agreed),
        record("articulated", "text2potential", 0, [0.0, 0.3], agreement=agreed),
        record("pick-place", "sparse", 0, [0.1, 0.2]),
    ]
    text = table(records, lookahead=False)
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines()}
    assert "pick-place | articulated | average" in lines["signal"]
    cells = [cell.strip() for cell in lines["text2potential"].strip("|").split("|")]
    assert cells[1:4] == ["60.0 ± 10.0", "30.0", "40.0"]
    assert cells[5:9] == ["90 ± 0", "95 ± 0", "99 ± 0", "97 ± 0"]
    sparse = [cell.strip() for cell in lines["sparse"].strip("|").split("|")]
    assert sparse[1:5] == ["20.0", "–", "–", "never (0/1)"]
    assert sparse[-1] == "50"
    assert Spread.of([float("nan")]).text() == "–"


def test_curves_are_drawn_with_their_spread(tmp_path: Path) -> None:
    records = [record("pick-place", "sparse", seed, [0.0, 0.1 + 0.1 * seed]) for seed in (0, 1)]
    updates, mean, error = mean_curve(records)
    assert updates.tolist() == [0.0, 1.0]
    np.testing.assert_allclose(mean, [0.0, 15.0])
    np.testing.assert_allclose(error, [0.0, 5.0])
    path = tmp_path / "curves.svg"
    draw_curves(records, path)
    assert "OOD success" in path.read_text() or path.stat().st_size > 5000


def test_the_command_prints_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["signals_table", "--results", str(tmp_path)])
    with pytest.raises(SystemExit):
        signals_table.main()
    assert "run coda.bench.signals first" in capsys.readouterr().err
    written = record("pick-place", "sparse", 0, [0.1, 0.2])
    (tmp_path / "signals-pick-place-sparse-seed0.json").write_text(json.dumps(written))
    signals_table.main()
    assert "Without lookahead" in capsys.readouterr().out
