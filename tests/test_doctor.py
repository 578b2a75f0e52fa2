"""The machine check: every line has a status, and a bad one a next step."""

from __future__ import annotations

import io
from importlib import metadata
from pathlib import Path

import pytest
from rich.console import Console

from coda.graphs import doctor


def test_an_old_python_fails_with_a_next_step() -> None:
    found = doctor.check_python((3, 10, 1))
    assert (found.status, found.remedy) == ("fail", "install a newer Python")


def test_this_environment_holds_the_tried_versions() -> None:
    found = doctor.check_packages()
    assert found.status == "ok", found.detail


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        return ["no-such-package>=1", "numpy>=999", "ruff; extra == 'dev'"]

    monkeypatch.setattr(metadata, "requires", requires)
    found = doctor.check_packages()
    assert found.status == "fail"
    assert found.detail.startswith("no-such-package is missing; numpy ")
    assert "ruff" not in found.detail


def test_the_wrong_pair_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"mujoco": "3.10.0"}.get(name, "1.4.0"))
    found = doctor.check_pair()
    assert found.status == "fail"
    assert found.remedy == "pip install robosuite==1.4.0 mujoco==3.3.7"


def test_without_gl_only_pictures_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_draws", lambda name: False)
    found = doctor.check_gl()
    assert found.status == "warn"
    assert "apt-get install libegl1 libosmesa6" in found.remedy


def test_a_gl_backend_that_does_not_draw_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_draws", lambda name: name == "osmesa")
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert doctor.check_gl().remedy == "unset it or set MUJOCO_GL=osmesa"


def test_keys_are_named_and_never_shown() -> None:
    found = doctor.check_keys({"OPENAI_API_KEY": "sk-secret", "OPENAI_BASE_URL": "http://x"})
    assert found.detail == "OPENAI_API_KEY set · OPENAI_BASE_URL is set"
    assert "sk-secret" not in repr(found)
    assert "offline" in doctor.check_keys({}).detail


def test_the_packaged_sentence_model_embeds() -> None:
    assert doctor.check_embedding().status == "ok"
    assert doctor.check_store().status == "ok"


@pytest.mark.parametrize(("free_gb", "status"), [(0.1, "fail"), (1.0, "warn"), (9.0, "ok")])
def test_disk(free_gb: float, status: str) -> None:
    assert doctor.check_disk(free_gb).status == status


def test_a_runs_path_below_a_file_is_no_folder(tmp_path: Path) -> None:
    assert doctor.check_runs(tmp_path / "runs").status == "ok"
    blocked = tmp_path / "file"
    blocked.write_text("")
    found = doctor.check_runs(blocked)
    assert found.status == "fail"
    assert str(blocked) in found.detail
    assert list(tmp_path.iterdir()) == [blocked]


def test_one_line_each_and_the_exit_status() -> None:
    checks = [
        doctor.Check("python", "ok", "3.11"),
        doctor.Check("disk", "fail", "0.1 GB free", "make room"),
    ]
    out = io.StringIO()
    assert doctor.print_checks(checks, Console(file=out, width=40)) == 1
    lines = out.getvalue().splitlines()
    assert lines == [
        "ok   python  3.11",
        "fail disk    0.1 GB free → make room",
        "1 of 2 checks failed.",
    ]
    assert doctor.print_checks(checks[:1], Console(file=out)) == 0


@pytest.mark.slow
def test_the_whole_check_runs_here(tmp_path: Path) -> None:
    checks = doctor.check(tmp_path / "runs")
    assert {item.name for item in checks} >= {"python", "opengl", "keys", "embedding", "disk"}
    assert all(item.remedy for item in checks if item.status != "ok")
