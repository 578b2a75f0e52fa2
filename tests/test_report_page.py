"""The report: complete, self-contained, escaped, and written without OpenGL too."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image as PilImage
from PIL import ImageSequence

from coda.graphs import media
from coda.graphs.artifacts import BuiltProgram, built_path, save_built
from coda.graphs.config import make_config
from coda.graphs.facts import read_facts
from coda.graphs.markup import Html, table, tag, text
from coda.graphs.media import Group, Media, Picture, choose_takes, make_media
from coda.graphs.report import MENU, write_report
from coda.graphs.runfolder import RunError, create
from coda.graphs.state import Slot
from coda.memory.rows import EpisodeRow
from coda.memory.rundb import RunDb
from coda.sim.engine import BatchSim
from coda.sim.errors import SimulationError
from coda.sim.families import family
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import GenerationProgram
from coda.sim.rollout import run_episodes
from coda.tools.episode_store import save_trials
from coda.tools.evaluation import Trial

HOSTILE = "<script>alert('x')</script>"
"""What the sample run's model wrote in several places."""
VOID = {"meta", "img", "path", "circle", "rect", "polyline"}


class _Checker(HTMLParser):
    """Collects ids, links and sources, and that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href"):
                self.targets.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def _page(run: Path, pictures: Media | None = None) -> str:
    return write_report(run, media=pictures or Media()).read_text(encoding="utf-8")


def test_it_is_one_closed_page_without_outside_addresses(sample_run: Path) -> None:
    film = Picture(data=b"RIFF", caption="SFT: failure", success=False)
    group = Group(title="Learnt: yaw", pictures=(film, film))
    page = _page(sample_run, Media(scenes=(group,), films=(group,)))
    checker = _Checker()
    checker.feed(page)
    assert checker.open == []
    assert set(checker.ids) == {anchor for anchor, _ in MENU}
    assert all(t.startswith(("#", "data:image/webp;base64,")) for t in checker.targets)
    assert not re.search(r"https?://|<script|@import|url\(", page)


def test_it_says_what_the_run_found(sample_run: Path) -> None:
    page = _page(sample_run)
    for part in (
        "CoDA run sample", "not finished", "offline (rules)", "6 → 53 %", "2/32 → 17/32",
        "+44 points", "overlap",
        "1 confirmed · 1 refuted · 0 undecided", "m001 misaligned grasp at large yaw",
        "sigma.target.yaw: uniform -1.2 to 1.2", "r01:rollout:0001:grasped(target)@31",
        "e-values", "verification rate", "make targets smaller", "consumed by round 1",
        "per accepted environment (8)", "price unknown", "History (2 versions)", "commit ",
    ):  # fmt: skip
        assert part in page.replace("\n", " "), part


def test_a_refuted_diagnosis_is_shown_though_it_made_no_mode(sample_run: Path) -> None:
    page = _page(sample_run)
    rest = page[page.index("Diagnoses that made no mode") :]
    assert "r01:d01: size blamed for misaligned-grasp" in rest
    assert "refuted" in rest


def test_text_of_a_model_never_becomes_markup(sample_run: Path) -> None:
    page = _page(sample_run)
    assert HOSTILE not in page
    assert "&lt;script&gt;alert" in page


def test_no_opengl_is_said_and_the_page_is_written(
    sample_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise SimulationError("no off-screen GL found; install one: apt-get install libosmesa6.")

    monkeypatch.setattr(media, "ensure_gl", broken)
    page = write_report(sample_run).read_text(encoding="utf-8")
    assert page.count("No pictures: no off-screen GL found; install one") == 2
    assert "6 → 53 %" in page


def test_an_empty_run_has_a_report(tmp_path: Path) -> None:
    folder, _ = create(make_config("debug", name="new", runs_dir=str(tmp_path / "runs")))
    RunDb(folder.db).close()
    page = _page(folder.path)
    assert "Not measured yet." in page
    assert "No modes yet." in page


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        write_report(tmp_path)


def test_markup_escapes_all_but_its_own() -> None:
    assert text("<b>") == "&lt;b&gt;"
    assert text(Html("<b>")) == "<b>"
    assert text(None) == ""
    assert "<td>–</td>" in table(("a",), [(None,)])
    assert tag("a", "x & y", href='"><img>') == '<a href="&quot;&gt;&lt;img&gt;">x &amp; y</a>'
    assert "None." in table(("a",), [])
    assert 'class="num"' in table(("a", "n"), [("x", 1)], numeric=1)


def _row(name: str, node: str, digest: str, success: bool, axis: str) -> EpisodeRow:
    return EpisodeRow(
        episode_id=name,
        node_key=node,
        purpose="evaluate-ood",
        scene_digest=digest,
        success=success,
        steps=40,
        progress=0.5,
        axis=axis,
    )


def test_films_show_the_same_scene_before_and_after() -> None:
    outcomes = {
        "s1": (False, True, "yaw"),
        "s2": (False, True, "yaw"),
        "s3": (False, True, "size"),
        "s4": (True, True, "goal"),
        "s5": (False, False, "position"),
    }
    rows = [_row(f"a{d}", "r00:seed", d, old, x) for d, (old, _, x) in outcomes.items()]
    rows += [_row(f"b{d}", "r03:measure", d, new, x) for d, (_, new, x) in outcomes.items()]
    takes = choose_takes(rows, frozenset(row.episode_id for row in rows))
    shown = [(t.title, [s.episode.episode_id for s in t.shots]) for t in takes]
    assert shown == [
        ("Learnt: yaw", ["as1", "bs1"]),
        ("Learnt: size", ["as3", "bs3"]),
        ("Solved before and after", ["as4", "bs4"]),
        ("Still failing: position", ["as5", "bs5"]),
    ]


def test_without_kept_evaluations_the_latest_rollouts_are_filmed() -> None:
    rows = [
        _row("x", "r01:rollout", "s1", True, "yaw"),
        _row("y", "r01:rollout", "s2", False, "yaw"),
    ]
    takes = choose_takes(rows, frozenset({"x", "y"}))
    assert [t.title for t in takes] == ["A success", "A failure"]
    assert choose_takes(rows, frozenset()) == ()


@pytest.mark.slow
def test_a_kept_rollout_becomes_a_film_and_a_scene_a_picture(sample_run: Path) -> None:
    scene = family("pick-place").seed
    sim = BatchSim([scene])
    (episode,) = run_episodes(sim, ScriptedPlanner(), max_steps=16)
    (sample_run / "rollouts").mkdir()
    trial = Trial(episode_id="r01:rollout:0001", episode=episode, progress=0.2, stage="reach")
    save_trials(sample_run / "rollouts" / "r01.npz", [trial])
    slot: Slot = {"slot_id": "r01:p00", "kind": "explore", "mode_id": None, "axis": "yaw"}  # type: ignore[typeddict-item]
    omega = GenerationProgram(name="seed", family="pick-place")
    built = BuiltProgram(program_id="r01:p00", slot=slot, program=omega, scenes=(scene,))
    save_built(built_path(sample_run, 1), [built])

    made = make_media(read_facts(sample_run))
    assert made.problem == ""
    assert [g.title for g in made.films] == ["A failure"]
    assert made.scenes[0].pictures[0].caption == scene.tau.instruction
    with PilImage.open(io.BytesIO(made.films[0].pictures[0].data)) as film:
        assert film.format == "WEBP"
        frames = sum(1 for _ in ImageSequence.Iterator(film))
        assert frames == 1 + -(-16 // media.FILM_EVERY)  # the last step is filmed too
    with PilImage.open(io.BytesIO(made.scenes[0].pictures[0].data)) as picture:
        assert len(picture.convert("RGB").getcolors(100_000) or []) > 50
    again = make_media(read_facts(sample_run))
    assert again == made
