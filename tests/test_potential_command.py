"""``coda potential``: tables and pictures of every family, findings, and one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image as PilImage

from coda.graphs import potential_command
from coda.graphs.cli import main
from coda.policy.potential_base import base_program
from coda.policy.potential_read import parse_training_program
from coda.policy.program import TrainingProgram
from coda.sim.errors import SimulationError
from coda.sim.families import FAMILIES
from coda.sim.film_chart import Curve, CurveChart, text_panel
from coda.sim.render import ensure_gl

BACKWARDS = {
    "name": "backwards",
    "family": "pick-place",
    "stages": [
        {
            "name": "reach",
            "share": 0.5,
            "progress": {"term": {"name": "near", "limit": 0.0}, "start": -0.1, "end": -0.45},
        },
        {
            "name": "there",
            "share": 0.5,
            "entry": [{"name": "on", "reference": "receptacle"}],
            "progress": {"term": {"name": "settled"}, "start": -0.2, "end": 0.0},
        },
    ],
}


@pytest.fixture
def needs_gl() -> None:
    try:
        ensure_gl()
    except SimulationError as error:
        pytest.skip(str(error))


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def coda(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Call ``coda potential``; returns the exit status."""
    monkeypatch.setattr("sys.argv", ["coda", "potential", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_table_of_a_familys_base_potential(
    name: str, inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coda(monkeypatch, name, "--text") == 0
    shown = capsys.readouterr().out
    stages = [stage.name for stage in base_program(name).stages]
    rows = [words for line in shown.splitlines() if (words := line.split())]
    assert [words[0] for words in rows if words[0] in stages] == stages
    assert rows[-1] == ["check:", "no", "findings"]
    entered = [int(words[2]) for words in rows if words[0] in stages and words[2] != "-"]
    assert entered == sorted(entered)
    assert "1.00" in next(words for words in rows if words[0] == "rest")[-1]
    assert "checked on 4 successes of 4 and 1 failure" in shown
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_flawed_program_exits_1_and_lists_what_is_wrong(
    suffix: str, inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = inside / f"phi{suffix}"
    path.write_text(yaml.safe_dump(BACKWARDS) if suffix == ".yaml" else json.dumps(BACKWARDS))
    assert coda(monkeypatch, "--program", str(path), "--text") == 1
    shown = " ".join(capsys.readouterr().out.split())
    for title in ("code", "path", "value", "allowed", "remedy"):
        assert title in shown
    assert "falling-progress" in shown
    assert "stages.0.progress" in shown
    assert "exchange start and end" in shown
    assert "finding(s)" in shown


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        ({"share": 0.9}, "bad-shares", "stages"),
        ({"share": -0.5}, "bad-shares", "stages.0.share"),
        ({"share": "much"}, "bad-shares", "stages.0.share"),
        ({"reward": 1.0}, "schema", "stages.0.reward"),
        ({"name": "Reach!"}, "schema", "stages.0.name"),
        ({"entry": [{"name": "nearby"}]}, "schema", "stages.0.entry.0.name"),
    ],
)
def test_a_program_of_the_wrong_form_exits_1(
    change: dict[str, object],
    code: str,
    path: str,
    inside: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = json.loads(json.dumps(BACKWARDS))
    program["stages"][0].update(change)
    issues = parse_training_program(program)
    assert not isinstance(issues, TrainingProgram)
    assert [(issue.code, issue.path) for issue in issues] == [(code, path)]
    (inside / "phi.json").write_text(json.dumps(program))
    assert coda(monkeypatch, "--program", "phi.json", "--text") == 1
    assert code in capsys.readouterr().out


def test_a_film_has_the_curve_beside_it_and_a_cursor_that_moves(
    inside: Path,
    needs_gl: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(potential_command, "FILM_SIZE", (90, 120))
    (inside / "phi.json").write_text(json.dumps(BACKWARDS))
    assert coda(monkeypatch, "pick-place", "--program", "phi.json", "-o", "phi.webp") == 1
    assert "picture: phi.webp" in capsys.readouterr().out
    with PilImage.open("phi.webp") as film:
        assert film.n_frames > 20  # type: ignore[attr-defined]
        first = np.asarray(film.convert("RGB"), dtype=np.int64)
        film.seek(film.n_frames // 2)  # type: ignore[attr-defined]
        middle = np.asarray(film.convert("RGB"), dtype=np.int64)
    assert first.shape[1] == 120 + potential_command.CHART_WIDTH
    chart = np.abs(first - middle)[:, 120:].max(axis=2) > 60
    assert chart.any(axis=0).sum() < 260  # the cursor and what is said, not the curves
    assert chart.any()


def test_a_picture_is_written_once(
    inside: Path,
    needs_gl: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(potential_command, "FILM_SIZE", (90, 120))
    assert coda(monkeypatch, "articulated/close-drawer", "-o", "phi.png") == 0
    before = (inside / "phi.png").read_bytes()
    with PilImage.open("phi.png") as picture:
        assert picture.size[0] == 120 * potential_command.STILLS
    assert coda(monkeypatch, "articulated/close-drawer", "-o", "phi.png") == 2
    assert "phi.png exists; choose another name with -o" in capsys.readouterr().err
    assert (inside / "phi.png").read_bytes() == before
    assert coda(monkeypatch, "articulated/close-drawer", "-o", "phi.png", "--force") == 0
    assert {path.name for path in inside.iterdir()} == {"phi.png"}


def test_the_potential_of_a_mode(
    sample_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--run", str(sample_run), "--mode", "m001", "--text")
    status = coda(monkeypatch, *words)
    shown = capsys.readouterr().out
    assert status == int("check: no findings" not in shown)
    assert "m001 misaligned grasp at large yaw, potential v1: 'pick-place-base'" in shown
    assert "wide yaw #" in shown
    assert coda(monkeypatch, *words, "--version", "3") == 2
    assert "m001 has no potential of version 3; versions: 1." in capsys.readouterr().err
    assert coda(monkeypatch, "--run", str(sample_run), "--mode", "m002", "--text") == 2
    assert "Did you mean 'm001'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nothing to show; name a SOURCE such as pick-place or ood:3"),
        (("pick-plaec",), "did you mean 'pick-place'?"),
        (("pick-place", "--mode", "m001"), "--mode takes scenes and potential of a run"),
        (("pick-place", "--run", "x"), "--run and --version need --mode"),
        (("--mode", "m001"), "no run in runs; start one with 'coda run'"),
        (("--program", "none.yaml"), "no file 'none.yaml'; check the path of --program"),
        (("--program", "list.json"), "list.json holds [1]; expected a training program"),
        (("--program", "broken.json"), "broken.json is not"),
        (("--program", "binary.json"), "binary.json is not text"),
        (("--program", "other.json"), "no task family with a base potential named 'pick-plaec'"),
        (
            ("articulated", "--program", "phi.json"),
            "phi.json is a potential of family 'pick-place' and articulated is of 'articulated'",
        ),
    ],
)
def test_every_mistake_is_one_line(
    words: tuple[str, ...],
    says: str,
    inside: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (inside / "phi.json").write_text(json.dumps(BACKWARDS))
    (inside / "other.json").write_text(json.dumps({**BACKWARDS, "family": "pick-plaec"}))
    (inside / "list.json").write_text("[1]")
    (inside / "broken.json").write_text("{")
    (inside / "binary.json").write_bytes(b"\xff\xfe\x00")
    assert coda(monkeypatch, *words, "--text") == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["phi.gif", "nowhere/phi.webp", "."])
def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(
    name: str, inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coda(monkeypatch, "pick-place", "-o", name) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_a_chart_shows_blocks_curve_and_cursor() -> None:
    curve = Curve(name="Phi", values=np.linspace(0.0, 1.0, 41))
    chart = CurveChart([curve], ["reach"] * 20 + ["lift"] * 21, (200, 400))
    still, here, there = chart.whole(), chart.at(10), chart.at(30)
    assert still.shape == here.shape == (200, 400, 3)
    assert (here != still).any()
    columns = [
        np.flatnonzero((p != still).any(axis=2)[60:].any(axis=0)).mean() for p in (here, there)
    ]
    assert columns[1] - columns[0] == pytest.approx((400 - 38 - 12) / 2, abs=3)


def test_words_are_wrapped_into_the_width() -> None:
    short = text_panel([("one line", (0, 0, 0))], 300)
    long = text_panel([("many words " * 20, (0, 0, 0))], 300)
    assert short.shape[1] == long.shape[1] == 300
    assert long.shape[0] > 3 * short.shape[0] / 2
