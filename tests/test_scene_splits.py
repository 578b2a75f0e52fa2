"""Held-out cells, the guard, and the frozen evaluation files."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from coda.sim import make_splits
from coda.sim.cells import (
    DIRECTIONS,
    away,
    cell,
    cells,
    fold_yaw,
    seed_cells,
    seed_centre,
    symmetry_period,
)
from coda.sim.cuts import CUTS
from coda.sim.errors import SceneError, UnknownName
from coda.sim.families import FAMILIES, family
from coda.sim.make_splits import (
    COMBINED_AXES,
    COMBINED_SCENES,
    IN_SCENES,
    SCENES_PER_AXIS,
    tasks_with,
    to_text,
)
from coda.sim.paths import write_factor
from coda.sim.roles import AXES, Axis
from coda.sim.salts import drawn_sides, fits
from coda.sim.sampling import sample_scene
from coda.sim.splits import (
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
NAMES = tuple(FAMILIES)
FILES = [(name, which) for name in NAMES for which in get_args(EvaluationName)]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", NAMES)
def test_a_third_of_the_cells_outside_the_seed_cells_is_held_out(name: str, axis: Axis) -> None:
    known = Splits(family=name).cells(axis)
    assert tuple(known) == cells(axis, name)
    seed = seed_cells(axis, name)
    assert seed < set(known)
    assert not any(known[one] for one in seed)
    item = family(name)
    if axis == "asset":
        assert {one for one, held in known.items() if held} <= set(item.held_out_assets)
        return
    assert sum(known.values()) == round((len(known) - len(seed)) / 3)

    def rank(one: str) -> str:
        return hashlib.sha256(f"{item.salt}|{axis}|{one}".encode()).hexdigest()

    held = [rank(one) for one, out in known.items() if out]
    kept = [rank(one) for one, out in known.items() if not out and one not in seed]
    assert max(held) < min(kept)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "pick-place"])
def test_the_salt_keeps_the_rule_by_which_it_was_searched(name: str) -> None:
    item = family(name)
    assert item.salt.startswith(f"{name}/")
    axes: tuple[Axis, ...] = ("yaw", "goal")  # all of them in the slow test below
    for axis in axes:
        task = sorted(item.tasks)[len(axis) % len(item.tasks)]
        assert fits([drawn_sides(name, axis, task)], held_out_cells(name)[axis]), (axis, task)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name != "pick-place"])
def test_the_salt_is_the_first_that_keeps_the_rule(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_splits.main(["--salt", "--family", name]) == 0
    assert capsys.readouterr().out.strip() == family(name).salt


def test_held_out_cells_of_pick_place_lie_on_several_sides() -> None:
    held = held_out_cells("pick-place")
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


@pytest.mark.parametrize("name", NAMES)
def test_every_task_has_an_asset_that_is_held_out_and_others_to_learn_from(name: str) -> None:
    item = family(name)
    assert tasks_with(item, AXES) == tuple(item.tasks)
    for task in item.tasks.values():
        held = set(item.held_out_assets) & set(task.assets["target"])
        assert task.seed.alpha.objects["target"].asset not in held
        assert len(set(task.assets["target"]) - held) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_every_seed_scene_lies_in_the_seed_cells_and_is_not_away(name: str) -> None:
    splits = Splits(family=name)
    for i in range(12):
        for task in family(name).tasks:
            scene = sample_scene(splits.seed_program(task), np.random.default_rng(i))
            for axis in AXES:
                assert cell(axis, scene) in seed_cells(axis, name)
                assert not away(axis, scene)
    centre = seed_centre("pick-place", "place")
    assert centre.sigma.poses["target"].xy == pytest.approx((0.48, -0.10))
    assert centre.alpha.objects["target"].mass_kg == pytest.approx(0.12)


@pytest.mark.parametrize("name", NAMES)
def test_every_wide_scene_lies_in_known_cells(name: str) -> None:
    splits = Splits(family=name)
    for i in range(24):
        scene = sample_scene(splits.wide_program(), np.random.default_rng(i))
        assert all(cell(axis, scene) in cells(axis, name) for axis in AXES)


def test_every_family_has_its_cuts() -> None:
    assert set(CUTS) == set(FAMILIES)


def test_openings_are_cells_of_their_task() -> None:
    goals = cells("goal", "articulated")
    assert "open-drawer/o0" in goals
    assert seed_cells("goal", "articulated") == {
        f"{name}/o{0 if task.seed.tau.goal.relation == 'open' else 9}"
        for name, task in family("articulated").tasks.items()
    }
    shut = family("articulated").tasks["open-drawer"].seed
    ajar = write_factor(shut, "tau.opening", 0.34)
    assert cell("goal", ajar) == "open-drawer/o4"
    assert away("goal", ajar)
    assert not away("goal", write_factor(shut, "tau.opening", 0.1))


def test_yaw_is_folded_by_the_footprint() -> None:
    assert symmetry_period("cube") == pytest.approx(np.pi / 2)
    assert symmetry_period("block") == pytest.approx(np.pi)
    assert symmetry_period("drawer-wide") == pytest.approx(2 * np.pi)
    assert symmetry_period("nut-square") == pytest.approx(2 * np.pi)
    assert fold_yaw("cube", np.pi / 2 + 0.05) == pytest.approx(0.05)
    assert fold_yaw("block", np.pi / 2 + 0.05) == pytest.approx(0.05 - np.pi / 2)
    assert fold_yaw("drawer-wide", 3.0) == pytest.approx(3.0)


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


def test_programs_of_tasks_name_only_what_their_task_has() -> None:
    splits = Splits(family="stack-insert")
    every, two = splits.wide_program(), splits.wide_program("stack-two")
    assert every.edits[0].path == two.edits[0].path == "tau.task"
    assert any(edit.path == "sigma.support.xy" for edit in every.edits)
    assert not any("support" in edit.path for edit in two.edits)
    assert all("support" not in one.roles for one in two.constraints)
    scenes = [sample_scene(every, np.random.default_rng(i)) for i in range(40)]
    assert {scene.tau.task for scene in scenes} == set(family("stack-insert").tasks)
    assert {sample_scene(two, np.random.default_rng(i)).tau.task for i in range(5)} == {"stack-two"}
    assert "tau.task" not in {edit.path for edit in SPLITS.wide_program("place").edits}
    with pytest.raises(UnknownName, match="no stack-insert task named 'stack-too'"):
        splits.program((), task="stack-too")


@pytest.mark.parametrize("name", NAMES)
def test_the_in_file_holds_nothing_held_out(name: str) -> None:
    have, splits = evaluation_set("in", name), Splits(family=name)
    assert (have.family, have.name) == (name, "in")
    assert len(have.scenes) == len(have.axis) == IN_SCENES
    assert all(splits.held_out(scene) == () for scene in have.scenes)
    assert len({scene.digest() for scene in have.scenes}) == IN_SCENES
    assert {scene.tau.task for scene in have.scenes} == set(family(name).tasks)


@pytest.mark.parametrize("name", NAMES)
def test_the_ood_file_is_held_out_exactly_where_its_labels_say(name: str) -> None:
    have, splits = evaluation_set("ood", name), Splits(family=name)
    assert len(have.scenes) >= 200
    counts = Counter(have.axis)
    assert counts.pop("combined") == COMBINED_SCENES
    assert counts == Counter({axis: SCENES_PER_AXIS for axis in AXES})
    triples = set()
    for scene, label in zip(have.scenes, have.axis, strict=True):
        held = splits.held_out(scene)
        assert all(away(axis, scene) for axis in held)
        if label == "combined":
            triples.add(held)
            assert len(held) == COMBINED_AXES
        else:
            assert held == (label,)
            others = [axis for axis in AXES if axis != label]
            assert all(cell(axis, scene) in seed_cells(axis, name) for axis in others)
    assert len(triples) == math.comb(len(AXES), COMBINED_AXES)
    assert len({scene.digest() for scene in have.scenes}) == len(have.scenes)
    assert have.select("goal") == tuple(i for i, one in enumerate(have.axis) if one == "goal")
    for axis in AXES:
        tasks = Counter(have.scenes[i].tau.task for i in have.select(axis))
        assert set(tasks) == set(family(name).tasks)
        assert max(tasks.values()) - min(tasks.values()) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_in_and_ood_share_no_scene(name: str) -> None:
    ours, theirs = (evaluation_set(which, name) for which in get_args(EvaluationName))
    assert not set(ours.scenes_by_digest()) & set(theirs.scenes_by_digest())


@pytest.mark.parametrize(("family_name", "name"), FILES)
def test_files_are_small_and_written_as_the_maker_writes_them(
    family_name: str, name: EvaluationName
) -> None:
    path = DATA / file_name(name, family_name)
    text = path.read_text(encoding="utf-8")
    assert len(text) < 300_000
    content = json.loads(text)
    assert to_text(content) == text
    assert content["digest"] == content_digest(content)
    assert content["generator_version"] == make_splits.GENERATOR_VERSION


def test_a_changed_file_is_refused() -> None:
    content: dict[str, Any] = json.loads((DATA / file_name("in")).read_text(encoding="utf-8"))
    content["scenes"][3]["sigma"]["poses"]["target"]["xy"][0] += 0.001
    with pytest.raises(SceneError, match="was changed: its content does not match its digest"):
        parse_evaluation(json.dumps(content), "x.json")
    with pytest.raises(SceneError, match="is not JSON"):
        parse_evaluation("{", "x.json")
    with pytest.raises(SceneError, match="not an evaluation file of version 2"):
        parse_evaluation("[]", "x.json")


def test_unknown_sets_are_named() -> None:
    with pytest.raises(UnknownName, match="no evaluation set named 'out'"):
        evaluation_set("out")
    with pytest.raises(UnknownName, match=r"no family with evaluation files named 'pick-plaice'"):
        evaluation_set("in", "pick-plaice")
    with pytest.raises(
        UnknownName, match=r"no evaluation label named 'goals'. Did you mean 'goal'"
    ):
        evaluation_set("ood").select("goals")


def test_the_maker_says_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / file_name("in", "pick-place")
    assert make_splits.check("in", "pick-place", tmp_path) == f"{missing} does not exist"
    with pytest.raises(SystemExit):
        make_splits.main(["--help"])
    assert "--check" in capsys.readouterr().out
    assert make_splits.main(["--check", "--family", "pick-plaice"]) == 2
    assert "Did you mean 'pick-place'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_what_their_rule_gives(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_splits.main(["--check", "--family", name, "--threads", "2"]) == 0
    assert capsys.readouterr().out.count("as its rule gives it") == 2
