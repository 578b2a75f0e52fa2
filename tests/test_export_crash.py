"""An export that is killed, or that fails, leaves a whole, shorter one."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from coda.sim import export_files
from coda.sim.export_common import ExportError, Recording
from coda.sim.export_files import claim, write_all
from coda.sim.export_hdf5 import Hdf5Exporter, demonstrations
from coda.sim.export_lerobot import LeRobotExporter
from coda.sim.export_video import encode
from tests.export_world import SIZE, beginnings, check_dataset, recordings

ROOT = Path(__file__).resolve().parents[1]
LEROBOT = "coda.sim.export_lerobot"
CAMERAS: Any = ("agentview", "wrist")


class Broken(OSError):
    """What goes wrong in these tests."""


def then_fail(count: int, error: BaseException) -> Iterator[Recording]:
    yield from itertools.islice(itertools.cycle(recordings()), count)
    raise error


@pytest.mark.parametrize("error", [Broken("x"), KeyboardInterrupt(), ExportError("x")])
@pytest.mark.parametrize("every_s", [0.0, 1e9])
def test_what_was_complete_before_an_error_is_kept(
    error: BaseException, every_s: float, tmp_path: Path
) -> None:
    folder, file = tmp_path / "d", tmp_path / "d.hdf5"
    lerobot = LeRobotExporter(folder, size=SIZE)
    with pytest.raises(type(error)):
        write_all(lerobot, then_fail(3, error), flush_every_s=every_s)
    assert check_dataset(folder, recordings()) == lerobot.episodes == 3
    assert not (folder / ".partial").exists()
    hdf5 = Hdf5Exporter(file)
    with pytest.raises(type(error)):
        write_all(hdf5, then_fail(3, error), flush_every_s=every_s)
    assert len(list(demonstrations(file))) == hdf5.episodes == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d", "d.hdf5"]


def test_nothing_is_left_where_nothing_came(tmp_path: Path) -> None:
    for exporter in (LeRobotExporter(tmp_path / "d"), Hdf5Exporter(tmp_path / "d.hdf5")):
        with pytest.raises(Broken):
            write_all(exporter, then_fail(0, Broken("x")))
    assert list(tmp_path.iterdir()) == []


def test_an_episode_whose_film_fails_is_not_half_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = encode, itertools.count()

    def fails(*args: Any) -> None:
        if next(calls) == 5:  # the second camera of the third episode
            raise Broken("no space")
        real(*args)

    monkeypatch.setattr(f"{LEROBOT}.encode", fails)
    exporter = LeRobotExporter(tmp_path / "d", size=SIZE, cameras=CAMERAS)
    with pytest.raises(Broken):
        write_all(exporter, recordings(), flush_every_s=1e9)
    assert check_dataset(tmp_path / "d", recordings()) == 2


def two_flushes(root: Path) -> LeRobotExporter:
    """Two episodes, then two more."""
    exporter = LeRobotExporter(root, size=SIZE, cameras=CAMERAS)
    for one in beginnings()[:2]:
        exporter.add(one)
    exporter.flush()
    write_all(exporter, beginnings()[2:], flush_every_s=1e9)
    return exporter


def test_between_any_two_renames_there_is_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, copies = tmp_path / "d", tmp_path / "copies"
    real, number = export_files.publish, itertools.count()

    def publish(part: Path, final: Path) -> None:
        shutil.copytree(root, copies / f"{next(number):03d}")
        real(part, final)

    monkeypatch.setattr(f"{LEROBOT}.publish", publish)
    two_flushes(root)
    found = [
        check_dataset(copy, beginnings(), exact=False) if count(copy) else 0
        for copy in sorted(copies.iterdir())
    ]
    assert len(found) > 30
    assert found == sorted(found)
    assert set(found) == {0, 2, 3}
    assert check_dataset(root, beginnings()) == 4


@pytest.mark.parametrize("renames", [0, 5, 11, 13, 20, 23])
def test_a_flush_that_breaks_off_is_not_tried_again(
    renames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second try would add films to films that have them already."""
    real, left = export_files.publish, iter(range(renames))

    def publish(part: Path, final: Path) -> None:
        if next(left, None) is None:
            raise Broken("no space")
        real(part, final)

    monkeypatch.setattr(f"{LEROBOT}.publish", publish)
    root = tmp_path / "d"
    with pytest.raises(Broken):
        two_flushes(root)
    if count(root):
        check_dataset(root, beginnings(), exact=False)
    else:
        assert renames < 13


WRITER = """
import itertools, sys
from pathlib import Path
from coda.sim.export_files import write_all
from coda.sim.export_hdf5 import Hdf5Exporter
from coda.sim.export_lerobot import LeRobotExporter
from tests.export_world import SIZE, beginnings

folder, file = map(Path, sys.argv[1:])
lerobot = LeRobotExporter(folder, size=SIZE, cameras=("agentview", "wrist"))
hdf5 = Hdf5Exporter(file, cameras=("agentview", "wrist"))


class Both:
    episodes = 0

    def add(self, one):
        lerobot.add(one)
        hdf5.add(one)

    def flush(self):
        lerobot.flush()
        hdf5.flush()


write_all(Both(), itertools.cycle(beginnings()), flush_every_s=0.0, clock=lambda: 0.0)
"""


def test_a_killed_export_leaves_what_was_flushed(tmp_path: Path) -> None:
    folder, file = tmp_path / "d", tmp_path / "d.hdf5"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(file)],
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for wanted in (3, 5, 6):  # killed at some moment of a later flush
            until = time.monotonic() + 60
            while not (file.exists() and count(folder) >= wanted):
                assert writer.poll() is None, writer.communicate()[1]
                assert time.monotonic() < until
                time.sleep(0.003)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
    assert check_dataset(folder, beginnings(), exact=False) >= 6
    assert (folder / ".partial").exists()
    found = list(demonstrations(file))
    assert len(found) >= 5
    with h5py.File(file) as f:
        assert len(f["mask/success"]) + len(f["mask/failure"]) == len(found)
        assert f["data"].attrs["total"] == sum(len(facts["actions"]) for _, facts in found)
    for (_, facts), one in zip(found, itertools.cycle(beginnings())):
        assert np.array_equal(facts["states"], one.states)
        assert facts["model_xml"] == one.model_xml


def count(root: Path) -> int:
    """Episodes that ``info.json`` promises; it is whole at any moment."""
    info = root / "meta" / "info.json"
    return int(json.loads(info.read_text())["total_episodes"]) if info.exists() else 0


def test_flushes_come_as_time_goes_by_and_cost_a_bounded_share() -> None:
    now, flushed = [0.0], []

    class Slow:
        episodes = 0

        def add(self, recording: Recording) -> None:
            now[0] += 1.0
            self.episodes += 1

        def flush(self) -> None:
            flushed.append(self.episodes)
            now[0] += 0.5

        def close(self) -> None:
            flushed.append(-1)

    many = itertools.islice(itertools.cycle(recordings()), 30)
    assert write_all(Slow(), many, flush_every_s=3.0, clock=lambda: now[0]) == 30
    assert flushed == [1, 11, 21, 30, -1]  # the first at once, then 20 times what one takes


def test_pictures_do_not_pile_up_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = Hdf5Exporter(tmp_path / "d.hdf5", cameras=CAMERAS)
    one = beginnings()[0]
    size = sum(film.nbytes for film in one.images.values())
    monkeypatch.setattr("coda.sim.export_hdf5.MEMORY_BYTES", 2 * size)
    seen = []
    for _ in range(4):
        exporter.add(one)
        seen.append(exporter.episodes)
    assert seen == [0, 0, 3, 3]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    def ours(path: Path) -> bool:
        return path.name.startswith("mine")

    mine, other = tmp_path / "mine", tmp_path / "other"
    for path in (mine, other):
        path.mkdir()
        (path / "x").write_text(path.name)
    with pytest.raises(ExportError, match=r"mine exists already; choose another -o, or --force"):
        claim(mine, force=False, ours=ours)
    with pytest.raises(ExportError, match=r"other is not an earlier export of this format"):
        claim(other, force=True, ours=ours)
    assert claim(mine, force=True, ours=ours) == tmp_path / "mine.old-1"
    mine.mkdir()
    assert claim(mine, force=False, ours=ours) is None  # an empty folder is nothing
    mine.write_text("again")
    assert claim(mine, force=True, ours=ours) == tmp_path / "mine.old-2"
    assert (tmp_path / "mine.old-1" / "x").read_text() == "mine"
    assert (tmp_path / "mine.old-2").read_text() == "again"
    assert (other / "x").read_text() == "other"


def test_a_rename_comes_after_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: order.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda *_: order.append("replace"))
    part = tmp_path / "a"
    part.write_text("x")
    export_files.publish(part, tmp_path / "b")
    assert order == ["fsync", "replace"]
