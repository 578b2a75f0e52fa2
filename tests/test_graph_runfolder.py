"""Run folders: creation, names, versions, locks, and which run is the latest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from coda.graphs.config import make_config
from coda.graphs.runfolder import RunError, create, find, locked, open_folder, versions


def test_create_writes_configuration_and_versions(tmp_path: Path) -> None:
    folder, config = create(make_config("debug", runs_dir=str(tmp_path)))
    assert folder.path == tmp_path / "debug-1"
    assert folder.read_config() == config
    written = json.loads((folder.path / "versions.json").read_text(encoding="utf-8"))
    assert written == versions()
    assert written["packages"]["mujoco"]


def test_names_count_up(tmp_path: Path) -> None:
    names = [create(make_config("debug", runs_dir=str(tmp_path)))[1].name for _ in range(3)]
    assert names == ["debug-1", "debug-2", "debug-3"]


def test_an_existing_run_is_not_overwritten(tmp_path: Path) -> None:
    config = make_config("debug", runs_dir=str(tmp_path), name="a")
    create(config)
    with pytest.raises(RunError, match="coda run --resume --name a"):
        create(config)


def test_a_folder_left_by_a_kill_before_its_configuration_is_adopted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    folder, _ = create(make_config("debug", runs_dir=str(tmp_path), name="a"))
    assert folder.config.exists()


def test_an_unwritable_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="choose another --runs-dir"):
        create(make_config("debug", runs_dir=str(tmp_path / "file" / "runs")))


def test_a_moved_run_folder_keeps_its_configuration(tmp_path: Path) -> None:
    folder, config = create(make_config("debug", runs_dir=str(tmp_path), name="a"))
    moved = folder.path.rename(tmp_path / "b")
    found = open_folder(moved).read_config()
    assert (found.name, found.runs_dir) == ("b", str(tmp_path))
    assert found.model_copy(update={"name": "a"}) == config


@pytest.mark.parametrize(
    ("content", "words"),
    [('{"run_schema": 99}', "run schema 99; this version reads 1"), ("{", "damaged")],
)
def test_a_folder_of_another_version_is_refused(tmp_path: Path, content: str, words: str) -> None:
    folder, _ = create(make_config("debug", runs_dir=str(tmp_path)))
    (folder.path / "versions.json").write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=words):
        open_folder(folder.path)


def test_find_takes_a_name_a_path_or_the_latest(tmp_path: Path) -> None:
    for name in ("a", "b"):
        create(make_config("debug", runs_dir=str(tmp_path), name=name))
    os.utime(tmp_path / "a" / "config.yaml", (1, 1))
    assert find(tmp_path, None).path.name == "b"
    assert find(tmp_path, "a").path.name == "a"
    assert find(tmp_path, str(tmp_path / "a")).path.name == "a"
    (tmp_path / "b" / "result.json").write_text("{}", encoding="utf-8")
    assert find(tmp_path, None, unfinished=True).path.name == "a"
    with pytest.raises(RunError, match="is not a run folder"):
        find(tmp_path, "c")


def test_no_run_at_all_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="start one with 'coda run'"):
        find(tmp_path / "none", None)


def test_two_processes_cannot_work_on_one_run(tmp_path: Path) -> None:
    folder, _ = create(make_config("debug", runs_dir=str(tmp_path)))
    with locked(folder), pytest.raises(RunError, match=f"process {os.getpid()}"), locked(folder):
        pass
    with locked(folder):
        pass
