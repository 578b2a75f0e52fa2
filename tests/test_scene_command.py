"""``coda scene``: every kind of source, every sub-command, and one line for every mistake."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import mujoco.viewer
import pytest
import typer
import yaml
from PIL import Image as PilImage

from coda.graphs import scene_command
from coda.graphs.cli import main
from coda.graphs.scene_cli import scene_app
from coda.sim import sheet
from coda.sim.errors import SceneError, SimulationError
from coda.sim.families import FAMILIES, family
from coda.sim.program import Edit, Fixed, GenerationProgram, Uniform
from coda.sim.render import FAST, ensure_gl
from coda.sim.scene import Scene
from coda.sim.sheet import SheetRow, Tile, draw_sheet
from coda.sim.sources import read_source, tasks_named
from coda.sim.splits import EvaluationName, evaluation_set

SEED = family("pick-place").seed
PROGRAM = GenerationProgram(
    name="turned",
    family="pick-place",
    edits=(Edit(path="sigma.target.yaw", sampler=Uniform(low=-0.5, high=0.5)),),
)
BAD_PROGRAM = {
    "name": "bad",
    "family": "pick-place",
    "edits": [
        {"path": "sigma.target.xz", "sampler": {"kind": "fixed", "value": [0.4, 0.0]}},
        {"path": "alpha.target.scale", "sampler": {"kind": "fixed", "value": 90.0}},
    ],
}


def off_table() -> dict[str, object]:
    data = SEED.model_dump(mode="json")
    data["sigma"]["poses"]["target"]["xy"] = [0.9, 0.9]
    return dict(data)


@pytest.fixture
def needs_gl() -> None:
    try:
        ensure_gl()
    except SimulationError as error:
        pytest.skip(str(error))


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no screen."""
    monkeypatch.chdir(tmp_path)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def coda(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Call ``coda scene``; returns the exit status."""
    monkeypatch.setattr("sys.argv", ["coda", "scene", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


# --- sources


def test_every_kind_of_source_is_read(inside: Path) -> None:
    (inside / "s.yaml").write_text(SEED.to_yaml(), encoding="utf-8")
    (inside / "s.json").write_text(SEED.canonical(), encoding="utf-8")
    (inside / "many.json").write_text(json.dumps([off_table()] * 2), encoding="utf-8")
    (inside / "p.json").write_text(PROGRAM.model_dump_json(), encoding="utf-8")
    assert read_source("s.yaml").valid_scenes() == (("s.yaml", SEED),)
    assert read_source("s.json").valid_scenes() == (("s.json", SEED),)
    assert len(read_source("many.json").scenes) == 2
    assert read_source("pick-place").valid_scenes() == (("pick-place/place", SEED),)
    assert read_source("pick-place/place").valid_scenes()[0][1] == SEED
    ood = evaluation_set("ood")
    assert read_source("ood:12").valid_scenes() == ((f"ood:12 ({ood.axis[12]})", ood.scenes[12]),)
    assert read_source("pick-place:in:1-2").valid_scenes() == (
        ("in:1", evaluation_set("in").scenes[1]),
        ("in:2", evaluation_set("in").scenes[2]),
    )
    drawn = read_source("p.json").valid_scenes(count=3, seed=5)
    assert [name for name, _ in drawn] == ["turned #0", "turned #1", "turned #2"]
    assert len({scene.sigma.poses["target"].yaw for _, scene in drawn}) == 3
    assert drawn == read_source("p.json").valid_scenes(count=3, seed=5)


def test_a_counted_family_is_drawn_from_its_whole_range() -> None:
    drawn = read_source("pick-place").counted().valid_scenes(count=4)
    assert len({scene.digest() for _, scene in drawn}) == 4
    with pytest.raises(SceneError, match="--count is for programs and families; ood:1 is"):
        read_source("ood:1").counted()


def test_tasks_are_named_by_family_or_one_by_one() -> None:
    for name, item in FAMILIES.items():
        assert tasks_named(name) == tuple((name, task) for task in item.tasks)
        assert read_source(name).scenes[0][1] == item.seed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("none.yaml", "no file 'none.yaml'; check the path"),
        ("pick-plaec", "did you mean 'pick-place'?"),
        ("pick-place/plaec", "no pick-place task named 'plaec'. Did you mean 'place'?"),
        ("ood:9999", "is out of range; pick-place's ood file holds scenes 0 to OOD"),
        ("in:5-2", "is out of range"),
        ("in:x", "names no scene; write a number from 0 to IN after in:"),
        ("pick-plaec:in:0", "no task family named 'pick-plaec'. Did you mean 'pick-place'?"),
        ("broken.json", "broken.json is not valid JSON: "),
        ("broken.yaml", "broken.yaml is not valid YAML or JSON: "),
        ("words.yaml", "words.yaml holds 'hello'; expected a scene or a generation program"),
        ("other.yaml", "is neither a scene (tau, sigma, alpha, nu) nor a generation program"),
        ("binary.json", "binary.json is not text"),
        (".", "'.' is a folder"),
        ("scene.yaml", "scene.yaml: scene sigma.poses"),
        ("program.json", "unknown-path: edits.0.path = sigma.target.xz"),
    ],
)
def test_every_bad_source_is_one_line(
    text: str,
    says: str,
    inside: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (inside / "broken.json").write_text("{", encoding="utf-8")
    (inside / "broken.yaml").write_text("a: [", encoding="utf-8")
    (inside / "words.yaml").write_text("hello", encoding="utf-8")
    (inside / "other.yaml").write_text("a: 1\nb: 2\n", encoding="utf-8")
    (inside / "binary.json").write_bytes(b"\xff\xfe\x00")
    bad = SEED.model_dump(mode="json")
    bad["sigma"]["poses"]["target"]["xy"] = [5.0, 0.0]
    (inside / "scene.yaml").write_text(yaml.safe_dump(bad), encoding="utf-8")
    (inside / "program.json").write_text(json.dumps(BAD_PROGRAM), encoding="utf-8")
    names: tuple[EvaluationName, ...] = ("in", "ood")
    for name in names:
        says = says.replace(f"0 to {name.upper()}", f"0 to {len(evaluation_set(name).scenes) - 1}")
    assert coda(monkeypatch, "show", text) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


# --- check


def test_a_sound_source_is_accepted(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coda(monkeypatch, "check", "in:0-1") == 0
    assert capsys.readouterr().out == "verification rate: 2 of 2 accepted (100%)\n"


def test_rejections_are_listed_with_their_remedy_and_counted(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(SEED.canonical())
    (inside / "many.json").write_text(json.dumps([data, off_table(), {"tau": 1}]), encoding="utf-8")
    assert coda(monkeypatch, "check", "many.json") == 1
    shown = capsys.readouterr().out
    for word in ("code", "path", "value", "allowed", "remedy", "off-workspace", "many.json[1]"):
        assert word in shown
    assert "sigma.target.xy" in shown
    assert "refused by code: " in shown
    assert "1 off-workspace" in shown
    assert "verification rate: 1 of 3 accepted (33%); refused by code: " in shown


def test_a_program_is_checked_before_its_scenes(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (inside / "bad.json").write_text(json.dumps(BAD_PROGRAM), encoding="utf-8")
    assert coda(monkeypatch, "check", "bad.json") == 1
    shown = capsys.readouterr().out
    assert "unknown-path" in shown
    assert "value-range" in shown
    assert "verification rate: nothing was drawn, the program itself is rejected" in shown
    (inside / "good.json").write_text(PROGRAM.model_dump_json(), encoding="utf-8")
    assert coda(monkeypatch, "check", "good.json", "--count", "3") == 0
    assert capsys.readouterr().out == "verification rate: 3 of 3 accepted (100%)\n"


def test_draws_that_no_sampler_can_make_count_as_rejected(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = SEED.sigma.poses["receptacle"].xy
    stuck = GenerationProgram(
        name="stuck",
        family="pick-place",
        edits=(Edit(path="sigma.target.xy", sampler=Fixed(value=where)),),
    )
    (inside / "stuck.json").write_text(stuck.model_dump_json(), encoding="utf-8")
    assert coda(monkeypatch, "check", "stuck.json", "--count", "2") == 1
    shown = capsys.readouterr().out
    assert "too-close" in shown
    assert "verification rate: 0 of 2 accepted (0%)" in shown


# --- pictures


@pytest.mark.usefixtures("needs_gl")
def test_one_scene_is_a_picture_and_several_are_a_sheet(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scene_command, "SINGLE", (60, 80))
    monkeypatch.setattr(sheet, "STILL", FAST)
    assert coda(monkeypatch, "draw", "ood:3", "-o", "one.png", "--camera", "both") == 0
    with PilImage.open(inside / "one.png") as picture:
        assert picture.size == (160, 60)
    assert coda(monkeypatch, "draw", "in:0-4", "-o", "sheet.png") == 0
    with PilImage.open(inside / "sheet.png") as picture:
        assert picture.width > 4 * 264
        assert picture.height > 2 * 264  # five scenes are two rows
    shown = capsys.readouterr().out
    assert shown.count("pick up the") == 6
    assert "picture: sheet.png" in shown
    assert sorted(p.name for p in inside.iterdir()) == ["one.png", "sheet.png"]


@pytest.mark.parametrize("command", ["draw", "sheet", "film"])
def test_nothing_is_overwritten_silently(
    command: str,
    inside: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    old = inside / ("old.webp" if command == "film" else "old.png")
    old.write_text("mine", encoding="utf-8")
    words = [command, "pick-place", "-o"]
    assert coda(monkeypatch, *words, old.name) == 2
    assert f"{old.name} exists; choose another name with -o, or replace it with --force" in (
        capsys.readouterr().err
    )
    assert old.read_text(encoding="utf-8") == "mine"
    assert coda(monkeypatch, *words, "a.txt") == 2
    assert "cannot write 'a.txt'; allowed endings: " in capsys.readouterr().err
    assert coda(monkeypatch, *words, f"nowhere/{old.name}") == 2
    assert "nowhere; make it first" in capsys.readouterr().err


@pytest.mark.usefixtures("needs_gl")
def test_a_place_that_cannot_be_written_is_one_line(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(self: PilImage.Image, path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(PilImage.Image, "save", refused)
    assert coda(monkeypatch, "draw", "pick-place", "-o", "a.png") == 2
    error = capsys.readouterr().err
    assert error == "coda: cannot write a.png: Permission denied; choose another -o.\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["draw", "pick-place", "--camera", "wirst"], "no camera named 'wirst'. Did you mean 'wri"),
        (["draw", "pick-place", "--count", "0"], "--count = 0; allowed: 1 to 500"),
        (["sheet", "pick-plaec"], "no task family named 'pick-plaec'. Did you mean 'pick-place'?"),
        (["view", "pick-place"], "no screen to open pick-place/place on"),
        (["film", "pick-place", "-o", "a.gif"], "allowed endings: .webp, .mp4"),
    ],
)
def test_every_mistake_is_one_line(
    words: list[str],
    says: str,
    inside: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert coda(monkeypatch, *words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert list(inside.iterdir()) == []


@pytest.mark.usefixtures("needs_gl")
def test_the_planner_is_filmed_until_it_is_done(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scene_command, "FILM_SIZE", (90, 120))
    assert coda(monkeypatch, "film", "pick-place", "-o", "f.webp") == 0
    shown = capsys.readouterr().out
    assert "planner: success after " in shown
    with PilImage.open(inside / "f.webp") as film:
        assert film.width == 120
        assert film.height > 90 + 60  # the timeline is under the picture
        assert film.n_frames > 20  # type: ignore[attr-defined]


def test_the_viewer_gets_the_scene_after_its_reset(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[tuple[mujoco.MjModel, mujoco.MjData]] = []
    monkeypatch.setattr(mujoco.viewer, "launch", lambda model, data: opened.append((model, data)))
    monkeypatch.setattr("glfw.init", lambda: True)
    monkeypatch.setenv("DISPLAY", ":0")
    assert coda(monkeypatch, "view", "pick-place") == 0
    ((model, data),) = opened
    target = data.body("target").xpos
    assert target[:2] == pytest.approx(SEED.sigma.poses["target"].xy, abs=2e-3)
    assert "close the window" in capsys.readouterr().out
    assert model.nmesh > 50  # the visual meshes
    monkeypatch.setattr("glfw.init", lambda: False)
    assert coda(monkeypatch, "view", "pick-place") == 2
    assert "the screen cannot be opened (DISPLAY = ':0')" in capsys.readouterr().err


# --- show


def test_what_is_shown_is_a_scene_file_with_its_factors_by_group(
    inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coda(monkeypatch, "show", "ood:40") == 0
    shown = capsys.readouterr().out
    assert Scene.from_text(shown) == evaluation_set("ood").scenes[40]
    groups = [line for line in shown.splitlines() if line.startswith(("# τ", "# σ", "# α", "# ν"))]
    assert groups == ["# τ task", "# σ spatial", "# α attributes", "# ν verifier"]
    for words in ("#   sigma.target.xy = (", "#   alpha.target.scale = ", "#   on(target, recept"):
        assert words in shown


# --- help and sheets


def test_each_sub_command_has_help_with_a_text_for_every_option() -> None:
    group = typer.main.get_command(scene_app)
    names = group.list_commands(None)  # type: ignore[attr-defined]
    assert set(names) == {"draw", "check", "sheet", "film", "view", "show"}
    for name in names:
        command = group.get_command(None, name)  # type: ignore[attr-defined]
        assert command.help
        assert all(getattr(option, "help", "") for option in command.params)


def test_an_empty_sheet_is_refused() -> None:
    with pytest.raises(SimulationError, match="no pictures for a contact sheet"):
        draw_sheet([SheetRow(title="a", subtitle="", tiles=(Tile(picture=None, caption="x"),))])
