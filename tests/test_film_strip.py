"""Films: the event timeline under the picture, and the formats that they are written in."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PilImage

from coda.sim.engine import BatchSim
from coda.sim.errors import SimulationError
from coda.sim.families import family
from coda.sim.film import film_rollout, write_film
from coda.sim.render import SceneRenderer, ensure_gl
from coda.sim.terms import PredicateTerm
from coda.sim.timeline_strip import (
    BAD,
    BAR,
    CURSOR,
    GOOD,
    SOFT,
    Row,
    Strip,
    Timeline,
    blocks,
    make_timeline,
    runs,
    short,
)

SEED = family("pick-place").seed


def truth(text: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([letter == "#" for letter in text])


def test_runs_are_where_a_predicate_holds() -> None:
    assert runs(truth("..##.#")) == [(2, 4), (5, 5)]
    assert runs(truth("###")) == [(0, 2)]
    assert runs(truth("...")) == []


def test_equal_stages_are_joined() -> None:
    assert blocks(["reach", "reach", "lift", "reach"]) == [
        (0, 2, "reach"),
        (2, 3, "lift"),
        (3, 4, "reach"),
    ]


def test_terms_are_short() -> None:
    assert short(PredicateTerm(name="near", limit=0.03)) == "near"
    assert short(PredicateTerm(name="on", reference="receptacle")) == "on receptacle"
    assert short(PredicateTerm(name="grasped", subject="distractor-1")) == "distractor-1 grasped"
    tower = PredicateTerm(name="on", subject="receptacle", reference="support")
    assert short(tower) == "receptacle on support"
    assert short(PredicateTerm(name="upright", negate=True)) == "not upright"


def strip_of(outcome: str, width: int = 300) -> Strip:
    rows = (
        Row(label="grasped", truth=truth("." * 20 + "#" * 21)),
        Row(label="lifted", truth=truth("." * 41)),
    )
    stages = ("reach",) * 20 + ("carry",) * 21
    return Strip(Timeline(rows=rows, outcome=outcome, stages=stages), width)


def has(picture: np.ndarray[Any, Any], colour: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    return np.asarray((picture == colour).all(axis=2))


def test_bars_lie_where_the_predicate_holds_and_nowhere_else() -> None:
    strip = strip_of("success")
    picture = strip.at(0)
    assert picture.shape == (strip.height, 300, 3)
    rows, columns = np.nonzero(has(picture, BAR))
    first, last = strip._x(20), strip._x(40)
    assert columns.min() == pytest.approx(first, abs=1.5)
    assert columns.max() == pytest.approx(last, abs=1.5)
    assert rows.max() - rows.min() < strip._pitch  # one row only: the other never holds
    assert has(picture, SOFT).any()


def test_the_cursor_moves_with_time_and_nothing_else_does() -> None:
    strip = strip_of("success")
    at = [np.nonzero(has(strip.at(step), CURSOR).sum(axis=0) > 20)[0] for step in (0, 20, 40)]
    assert [round(float(columns.mean())) for columns in at] == [
        pytest.approx(strip._x(step), abs=1.5) for step in (0, 20, 40)
    ]
    changed = (strip.at(0) != strip.at(40)).any(axis=(0, 2))
    between = slice(int(strip._x(1)) + 1, int(strip._x(39)))
    assert not changed[between].any()


@pytest.mark.parametrize(
    ("outcome", "colour", "other"), [("success", GOOD, BAD), ("timeout", BAD, GOOD)]
)
def test_success_is_marked(
    outcome: str, colour: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    picture = strip_of(outcome, 640).at(3)
    assert has(picture, colour).any()
    assert not has(picture, other).any()


def test_heights_are_even_for_video_codecs() -> None:
    assert all(strip_of("crashed", width).height % 2 == 0 for width in (192, 256, 640))


def test_stage_names_need_one_for_every_state() -> None:
    sim = BatchSim([SEED])
    packed = sim.reset().pack()
    with pytest.raises(SimulationError, match="2 stage names for 1 states"):
        make_timeline(packed, "timeout", stages=("reach", "reach"))


def test_rows_are_the_watched_terms_and_the_goal_of_roles_that_are_there() -> None:
    packed = BatchSim([SEED]).reset().pack()
    labels = [row.label for row in make_timeline(packed, "timeout", goal=SEED.nu.terms).rows]
    assert {"near", "grasped", "lifted", "on receptacle", "settled"} <= set(labels)
    assert len(labels) == len(set(labels))
    absent = PredicateTerm(name="grasped", subject="distractor-3")
    assert [
        r.label for r in make_timeline(packed, "x", goal=(*SEED.nu.terms, absent)).rows
    ] == labels


def test_a_film_shows_every_nth_step_and_the_last() -> None:
    try:
        ensure_gl()
    except SimulationError as error:
        pytest.skip(str(error))
    actions = np.zeros((2, 8, 7))
    actions[:, :, 2] = -0.3
    with SceneRenderer(SEED, size=(48, 64)) as renderer:
        film = film_rollout(
            SEED,
            actions,
            np.array([8, 3]),
            "timeout",
            every=4,
            cameras=("agentview", "wrist"),
            stages=lambda frames: ["reach"] * len(frames),
            renderer=renderer,
        )
        assert renderer.draw(BatchSim([SEED]).qpos(0)).shape == (48, 64, 3)  # still ours
    assert film.steps == (0, 4, 8, 11)
    assert film.fps == 5.0
    height, width, _ = film.pictures[0].shape
    assert width == 128
    assert height > 48
    assert all(p.shape == (height, width, 3) for p in film.pictures)


PICTURES = [np.full((31, 42, 3), 60 * k, dtype=np.uint8) for k in range(4)]


def test_a_webp_plays_at_real_time_and_rests_on_its_end(tmp_path: Path) -> None:
    path = write_film(PICTURES, tmp_path / "a.webp", fps=5.0)
    with PilImage.open(path) as film:
        durations = []
        for k in range(film.n_frames):  # type: ignore[attr-defined]
            film.seek(k)
            film.load()
            durations.append(film.info["duration"])
    assert durations == [200, 200, 200, 1200]


def test_an_mp4_holds_every_picture(tmp_path: Path) -> None:
    av: Any = pytest.importorskip("av")
    path = write_film(PICTURES, tmp_path / "a.mp4", fps=5.0)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (42, 30, 5)
        assert sum(1 for _ in container.decode(stream)) == 4 + 5  # a second on the last


def test_an_mp4_without_pyav_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, *more: Any) -> Any:
        if name == "av":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(
        SimulationError, match=r"'a.mp4' needs PyAV; pip install av, or write a .we"
    ):
        write_film(PICTURES, tmp_path / "a.mp4")
    assert not list(tmp_path.iterdir())


def test_other_formats_and_empty_films_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match=r"as 'a.gif'; allowed: .webp, .mp4"):
        write_film(PICTURES, tmp_path / "a.gif")
    for name in ("a.webp", "a.mp4"):
        with pytest.raises(SimulationError, match="no pictures to write"):
            write_film([], tmp_path / name)
    assert list(tmp_path.iterdir()) == []
