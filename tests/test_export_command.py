"""``coda export``: demonstrations and stored rollouts, one line for every mistake, nothing lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from coda.graphs import export_command as command
from coda.graphs.cli import main
from coda.graphs.export_command import ExportOptions
from coda.graphs.export_sources import PlannerSource
from coda.memory.rows import EpisodeRow
from coda.memory.rundb import RunDb
from coda.sim.export_common import Recording
from coda.sim.rollout import EpisodeData, Outcome
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from coda.tools.episode_store import save_trials
from coda.tools.evaluation import Trial
from tests.export_world import FAMILY, check_dataset, episodes, recordings


def coda(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["coda", "export", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.fixture
def stored_run(sample_run: Path) -> Path:
    """A run that stored four evaluation rollouts, one of them crashed, and another rollout."""
    crashed = replace(episodes()[1], outcome=Outcome.CRASHED)
    ood = [episodes()[0], crashed, episodes()[2], episodes()[3]]
    with RunDb(sample_run / "run.db") as db:
        for file, node, purpose, some in (
            ("episodes/r00-ood", "r00:seed", "evaluate-ood", ood),
            ("rollouts/r01", "r01:rollout", "diagnose", [episodes()[1]]),
        ):
            path = sample_run / f"{file}.npz"
            path.parent.mkdir(exist_ok=True)
            save_trials(path, [trial(f"{node}:x{i}", e) for i, e in enumerate(some)])
            db.begin_node(f"{node}2")
            for i, e in enumerate(some):
                db.add(row(f"{node}:x{i}", f"{node}2", purpose, e))
            db.finish_node(f"{node}2")
    return sample_run


def trial(name: str, episode: EpisodeData) -> Trial:
    return Trial(episode_id=name, episode=episode, progress=0.5, stage="grasp")


def row(name: str, key: str, purpose: str, episode: EpisodeData) -> EpisodeRow:
    return EpisodeRow(
        episode_id=name,
        node_key=key,
        purpose=purpose,
        scene_digest=episode.scene.digest(),
        success=episode.success,
        steps=episode.steps,
        progress=0.5,
    )


def side(root: Path) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in sorted((root / "coda/episodes").glob("*.json"))]


def test_demonstrations_of_the_planner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "d"
    words = ("--planner", FAMILY, "--episodes", 2, "--seed", 3, "--privileged")
    assert coda(monkeypatch, *words, "-o", out) == 0
    said = capsys.readouterr().out
    assert f"{out}: 2 episodes (2 successes), " in said
    assert "LeRobotDataset v3.0" in said
    facts = side(out)
    assert [f["name"] for f in facts] == [f"{FAMILY}:seed:3:{i}" for i in range(2)]
    splits = Splits(family=FAMILY)
    for i, fact in enumerate(facts):
        rng = np.random.default_rng([3, i])
        drawn = sample_scene(splits.seed_program(), rng, guard=splits)
        assert Scene.model_validate(fact["scene"]) == drawn
        assert (fact["seed"], fact["kind"], fact["success"]) == (3, "planner", True)


def test_the_number_of_demonstrations_does_not_change_the_first_ones() -> None:
    def some(count: int) -> list[EpisodeData]:
        source = PlannerSource(FAMILY, "wide", 1, failures=True, threads=1)
        return [episode for episode, _ in source.items(count)]

    few, more = some(2), some(4)
    assert [len(few), len(more)] == [2, 4]
    for a, b in zip(few, more, strict=False):
        assert a.scene == b.scene
        assert np.array_equal(a.frames, b.frames)


def test_stored_rollouts_of_a_run(
    stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    out = tmp_path / "d"
    assert coda(monkeypatch, stored_run, "-o", out) == 0
    said = capsys.readouterr()
    assert "3 episodes (3 successes)" in said.out
    assert "left out: 1 crashed; 1 failed (--failures takes them too)" in said.err
    held = [recordings()[i] for i in (0, 2, 1)]
    check_dataset_by_content(out, held)
    assert [f["purpose"] for f in side(out)] == ["evaluate-ood", "evaluate-ood", "diagnose"]
    assert {f["kind"] for f in side(out)} == {"rollout"}


def check_dataset_by_content(out: Path, held: list[Recording]) -> None:
    assert check_dataset(out, held) == len(held)


def test_purpose_number_and_failures_choose(
    stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a.hdf5"
    words = (stored_run, "--format", "hdf5", "--purpose", "evaluate-ood")
    assert coda(monkeypatch, *words, "--failures", "-o", out) == 0
    with h5py.File(out) as f:
        assert [f[f"data/demo_{i}"].attrs["name"] for i in range(3)] == [
            "r00:seed:x0", "r00:seed:x2", "r00:seed:x3",
        ]  # fmt: skip
        assert (len(f["mask/success"]), len(f["mask/failure"])) == (2, 1)
    assert coda(monkeypatch, *words, "--episodes", 1, "-o", tmp_path / "b.hdf5") == 0
    with h5py.File(tmp_path / "b.hdf5") as f:
        assert list(f["data"]) == ["demo_0"]


def test_what_does_not_come_out_the_same_is_left_out_and_named(
    stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    one = episodes()[0]
    frames = one.frames.copy()
    frames[-1, 0] += 1e-12
    trials = [trial("r09:x:0", replace(one, frames=frames)), trial("r09:x:1", episodes()[1])]
    save_trials(stored_run / "rollouts" / "r09.npz", trials)
    out = tmp_path / "d"
    assert coda(monkeypatch, stored_run, "--purpose", "unknown", "-o", out) == 0
    said = capsys.readouterr()
    assert "1 episodes (1 successes)" in said.out
    assert "1 not reproduced (e.g. r09:x:0 (success in " in said.err
    assert [f["name"] for f in side(out)] == ["r09:x:1"]


def test_an_earlier_export_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    out = tmp_path / "d"
    words = ("--planner", FAMILY, "--episodes", 1, "-o", out)
    assert coda(monkeypatch, *words) == 0
    before = (out / "meta" / "info.json").read_bytes()
    assert coda(monkeypatch, *words) == 2
    assert (
        "exists already; choose another -o, or --force to move it aside" in capsys.readouterr().err
    )
    assert coda(monkeypatch, *words, "--force") == 0
    assert f"moved to {out}.old-1" in capsys.readouterr().err
    assert (tmp_path / "d.old-1" / "meta" / "info.json").read_bytes() == before
    assert (out / "meta" / "info.json").exists()


def test_an_earlier_export_comes_back_where_nothing_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    out = tmp_path / "d"
    assert coda(monkeypatch, "--planner", FAMILY, "--episodes", 1, "-o", out) == 0

    def nothing(self: PlannerSource, count: int) -> Iterator[Any]:
        self.tally.drop("scenes refused by the gate", "overlap")
        return iter(())

    monkeypatch.setattr(PlannerSource, "items", nothing)
    assert coda(monkeypatch, "--planner", FAMILY, "--force", "-o", out) == 2
    said = capsys.readouterr().err
    assert "nothing to export; left out: 1 scenes refused by the gate (e.g. overlap)." in said
    assert [p.name for p in tmp_path.iterdir()] == ["d"]
    assert len(side(out)) == 1


def test_ctrl_c_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def stops(*args: Any) -> Iterator[Recording]:
        yield recordings()[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_recordings", stops)
    assert coda(monkeypatch, "--planner", FAMILY, "-o", tmp_path / "d") == 130
    assert "stopped; " in (said := capsys.readouterr().err)
    assert "holds the first 1 episodes, complete." in said
    assert check_dataset(tmp_path / "d", recordings()) == 1


def test_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def stops(*args: Any) -> Iterator[Recording]:
        yield recordings()[0]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "_recordings", stops)
    out = tmp_path / "d.hdf5"
    assert coda(monkeypatch, "--planner", FAMILY, "--format", "hdf5", "-o", out) == 2
    said = capsys.readouterr().err
    assert f"cannot write {out}: No space left on device; {out} holds the first 1 episodes" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--planner", "pick-plase"], "no task family named 'pick-plase'. Did you mean"),
        (
            ["--planner", FAMILY, "--format", "zarr"],
            "no export format named 'zarr'. Known: hdf5, ler",
        ),
        (["--planner", FAMILY, "--program", "narrow"], "no reference program named 'narrow'"),
        (["--planner", FAMILY, "--purpose", "x"], "give --purpose or --planner"),
        (["r", "--planner", FAMILY], "give RUN (r) or --planner"),
        (["--planner", FAMILY, "--images", "--image-size", "33"], "films take even sizes"),
        (["no-such-run"], "is not a run folder"),
        (["--planner", FAMILY, "-o", "/proc/none/x"], "cannot write /proc/none/x"),
        (["--planner", FAMILY, "-o", "/usr", "--force"], "is not an earlier export of this format"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    given = words if "-o" in words else [*words, "-o", "d"]
    assert coda(monkeypatch, *given) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_rollouts_and_an_unknown_purpose(
    sample_run: Path, stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    words = (stored_run, "--purpose", "evaluate-odd", "-o", tmp_path / "d")
    assert coda(monkeypatch, *words) == 2
    assert "Did you mean 'evaluate-ood'? Known: diagnose, evaluate-ood." in capsys.readouterr().err
    for path in sample_run.rglob("*.npz"):
        path.unlink()
    assert coda(monkeypatch, sample_run, "-o", tmp_path / "d") == 2
    assert "stores no rollouts yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("format_", "module"), [("lerobot", "pyarrow.parquet"), ("lerobot", "av"), ("hdf5", "h5py")]
)
def test_a_missing_extra_is_one_line_with_the_command(
    format_: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    words = ("--planner", FAMILY, "--format", format_, "-o", "d")
    assert coda(monkeypatch, *words, *(["--images"] if module == "av" else [])) == 2
    said = capsys.readouterr().err
    assert f"exporting needs {module.split('.')[0]}, which cannot be imported" in said
    assert said.endswith("install it: pip install 'coda-robotics[export]'\n")
    assert list(tmp_path.iterdir()) == []


def test_pictures_of_both_cameras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "d"
    words = ("--planner", FAMILY, "--episodes", 1, "--images", "--image-size", 64, "-o", out)
    assert coda(monkeypatch, *words) == 0
    info = json.loads((out / "meta" / "info.json").read_text())
    assert info["features"]["observation.images.agentview"]["shape"] == [64, 64, 3]
    assert len(list(out.rglob("*.mp4"))) == 2


def test_options_have_the_defaults_of_the_command() -> None:
    given = ExportOptions(output=Path("d"))
    assert (given.format, given.images, given.privileged, given.failures) == (
        "lerobot", False, False, False,
    )  # fmt: skip
    assert (given.cameras, replace(given, images=True).cameras) == ((), ("agentview", "wrist"))
