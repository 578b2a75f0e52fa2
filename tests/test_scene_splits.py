"""Held-out cells, the guard, and the frozen evaluation files."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coda.sim import make_splits
from coda.sim.cells import CELLS, DIRECTIONS, SEED_CELLS, away, cell, fold_yaw, symmetry_period
from coda.sim.errors import SceneError, UnknownName
from coda.sim.families import family
from coda.sim.make_splits import COMBINED_AXES, COMBINED_SCENES, IN_SCENES, SCENES_PER_AXIS, to_text
from coda.sim.paths import write_factor
from coda.sim.roles import AXES, Axis
from coda.sim.sampling import sample_scene
from coda.sim.splits import (
    HELD_OUT_ASSETS,
    SALT,
    EvaluationName,
    Splits,
    content_digest,
    evaluation_set,
    file_name,
    held_out_cells,
    parse_evaluation,
)

SPLITS = Splits()
DATA = Path(make_splits.__file__).parent / "data"


@pytest.mark.parametrize("axis", AXES)
def test_a_third_of_the_cells_outside_the_seed_cell_is_held_out(axis: Axis) -> None:
    cells = SPLITS.cells(axis)
    assert tuple(cells) == CELLS[axis]
    assert not cells[SEED_CELLS[axis]]
    if axis == "asset":
        assert {name for name, held in cells.items() if held} == set(HELD_OUT_ASSETS)
        return
    assert sum(cells.values()) == round((len(cells) - 1) / 3)

    def rank(name: str) -> str:
        return hashlib.sha256(f"{SALT}|{axis}|{name}".encode()).hexdigest()

    held = [rank(name) for name, out in cells.items() if out]
    kept = [rank(n) for n, out in cells.items() if not out and n != SEED_CELLS[axis]]
    assert max(held) < min(kept)


def test_held_out_cells_away_from_the_seed_range_lie_on_several_sides() -> None:
    held = held_out_cells()
    sizes = {int(name[1:]) for name in held["size"]}
    assert min(sizes) < 5
    assert 21 in sizes  # wide enough to be away …
    assert 22 not in sizes  # … with wider ones to learn from
    yaws = {int(name[1:]) - 8 for name in held["yaw"]}
    assert min(yaws) <= -5
    assert max(yaws) >= 5
    assert yaws & {-3, 3}
    assert len(held["mass-friction"] & {"m5/f0", "m6/f1", "m6/f2"}) == 2
    crowds = {name for name in held["distractors"] if name[:2] in ("n2", "n3")}
    near = {name for name in crowds if "near0" in name or "near1" in name}
    assert {name.rsplit("/", 1)[1] for name in near} == set(DIRECTIONS)


def test_every_seed_scene_lies_in_the_seed_cells() -> None:
    for i in range(30):
        scene = sample_scene(SPLITS.seed_program(), np.random.default_rng(i))
        assert {axis: cell(axis, scene) for axis in AXES} == dict(SEED_CELLS)


def test_every_wide_scene_lies_in_known_cells() -> None:
    for i in range(30):
        scene = sample_scene(SPLITS.wide_program(), np.random.default_rng(i))
        assert all(cell(axis, scene) in CELLS[axis] for axis in AXES)


def test_yaw_is_folded_by_the_footprint() -> None:
    assert symmetry_period("cube") == pytest.approx(np.pi / 2)
    assert symmetry_period("block") == pytest.approx(np.pi)
    assert fold_yaw("cube", np.pi / 2 + 0.05) == pytest.approx(0.05)
    assert fold_yaw("block", np.pi / 2 + 0.05) == pytest.approx(0.05 - np.pi / 2)


def test_the_guard_names_axis_and_cell() -> None:
    scene = write_factor(family("pick-place").seed, "alpha.target.asset", "cereal")
    assert SPLITS.held_out(scene) == ("asset",)
    with pytest.raises(SceneError, match=r"held out for evaluation \(asset cereal\); train only"):
        SPLITS.check(scene)
    beside = write_factor(family("pick-place").seed, "tau.distractors", 1)
    beside = write_factor(beside, "alpha.distractor-1.asset", "can")
    assert "asset" in SPLITS.held_out(beside)


def test_programs_of_axes() -> None:
    assert SPLITS.program(()) == SPLITS.seed_program()
    yaw: tuple[Axis, ...] = ("yaw",)
    wide = SPLITS.program(yaw)
    changed = [
        a.path
        for a, b in zip(wide.edits, SPLITS.seed_program().edits, strict=True)
        if a.sampler != b.sampler
    ]
    assert changed == ["sigma.target.yaw"]
    with pytest.raises(UnknownName, match="Did you mean 'yaw'"):
        SPLITS.program(("jaw",))  # type: ignore[arg-type]


def test_the_in_file_holds_nothing_held_out() -> None:
    have = evaluation_set("in")
    assert len(have.scenes) == len(have.axis) == IN_SCENES
    assert all(SPLITS.held_out(scene) == () for scene in have.scenes)
    assert len({scene.digest() for scene in have.scenes}) == IN_SCENES


def test_the_ood_file_is_held_out_exactly_where_its_labels_say() -> None:
    have = evaluation_set("ood")
    counts = Counter(have.axis)
    assert counts.pop("combined") == COMBINED_SCENES
    assert counts == Counter({axis: SCENES_PER_AXIS for axis in AXES})
    triples = set()
    for scene, label in zip(have.scenes, have.axis, strict=True):
        held = SPLITS.held_out(scene)
        if label == "combined":
            triples.add(held)
            assert len(held) == COMBINED_AXES
            assert all(away(axis, scene) for axis in held)
        else:
            assert held == (label,)
            assert all(away(axis, scene) for axis in held)
            others = [axis for axis in AXES if axis != label]
            assert all(cell(axis, scene) == SEED_CELLS[axis] for axis in others)
    assert len(triples) == math.comb(len(AXES), COMBINED_AXES)
    assert len({scene.digest() for scene in have.scenes}) == len(have.scenes)
    assert have.select("goal") == tuple(i for i, name in enumerate(have.axis) if name == "goal")


def test_in_and_ood_share_no_scene() -> None:
    assert not set(evaluation_set("in").scenes_by_digest()) & set(
        evaluation_set("ood").scenes_by_digest()
    )


@pytest.mark.parametrize("name", ["in", "ood"])
def test_files_are_small_and_written_as_the_maker_writes_them(name: EvaluationName) -> None:
    path = DATA / file_name(name)
    text = path.read_text(encoding="utf-8")
    assert len(text) < 300_000
    content = json.loads(text)
    assert to_text(content) == text
    assert content["digest"] == content_digest(content)


def test_a_changed_file_is_refused() -> None:
    content: dict[str, Any] = json.loads((DATA / file_name("in")).read_text(encoding="utf-8"))
    content["scenes"][3]["sigma"]["poses"]["target"]["xy"][0] += 0.001
    with pytest.raises(SceneError, match="was changed: its content does not match its digest"):
        parse_evaluation(json.dumps(content), "x.json")
    with pytest.raises(SceneError, match="is not JSON"):
        parse_evaluation("{", "x.json")
    with pytest.raises(SceneError, match="not an evaluation file of version 1"):
        parse_evaluation("[]", "x.json")


def test_unknown_sets_are_named() -> None:
    with pytest.raises(UnknownName, match="no evaluation set named 'out'"):
        evaluation_set("out")
    with pytest.raises(
        UnknownName, match=r"no evaluation label named 'goals'. Did you mean 'goal'"
    ):
        evaluation_set("ood").select("goals")


def test_the_maker_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_splits.check("in", tmp_path) == f"{tmp_path / file_name('in')} does not exist"
    with pytest.raises(SystemExit):
        make_splits.main(["--help"])
    assert "--check" in capsys.readouterr().out


@pytest.mark.slow
def test_the_files_are_what_their_rule_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_splits.main(["--check"]) == 0
    assert capsys.readouterr().out.count("as its rule gives it") == 2
