"""Variants of seed scenes for contact sheets: gated, of increasing size, and different."""

from __future__ import annotations

import functools

import pytest

from coda.sim import sheet
from coda.sim.errors import SimulationError
from coda.sim.families import FAMILIES
from coda.sim.gate import Gate
from coda.sim.render import FAST, ensure_gl
from coda.sim.sheet import VariantRow, variants_sheet
from coda.sim.timeline_strip import SOFT
from coda.sim.variants import KINDS, RESIZED, Variant, displacement, variants

TASKS = [(family, task) for family, item in FAMILIES.items() for task in item.tasks]


@functools.cache
def row(family: str, task: str) -> tuple[Variant, ...]:
    return variants(FAMILIES[family], FAMILIES[family].tasks[task])


def _check(family: str, task: str) -> None:
    found = row(family, task)
    assert tuple(one.kind for one in found) == KINDS
    scenes = {one.kind: one.scene for one in found if one.scene is not None}
    assert set(scenes) == set(KINDS), [one.caption for one in found if one.scene is None]
    seed = scenes["seed"]
    assert seed == FAMILIES[family].tasks[task].seed
    assert all(report.accepted for report in Gate().check(list(scenes.values())))
    moved = [displacement(seed, scenes[f"spatial {k}"]) for k in (1, 2, 3)]
    assert moved == sorted(moved)
    assert moved[0] > 0.015
    assert all(scenes[f"spatial {k}"].alpha == seed.alpha for k in (1, 2, 3))
    size, asset = scenes["size"], scenes["asset"]
    assert size.sigma == seed.sigma
    ratios = [size.alpha.objects[r].scale / seed.alpha.objects[r].scale for r in seed.roles]
    assert any(abs(ratio - 1) > 0.9 * (1 - 1 / RESIZED) for ratio in ratios)
    changed = [r for r in seed.roles if asset.alpha.objects[r].asset != seed.alpha.objects[r].asset]
    assert len(changed) == 1
    assert len({one.caption for one in found}) == len(KINDS)


def test_pick_place_has_all_six_variants() -> None:
    _check("pick-place", "place")


@pytest.mark.slow
@pytest.mark.parametrize(("family", "task"), TASKS)
def test_every_task_has_all_six_variants(family: str, task: str) -> None:
    _check(family, task)


def test_the_same_seed_gives_the_same_variants() -> None:
    task = FAMILIES["pick-place"].tasks["place"]
    assert variants(FAMILIES["pick-place"], task) == row("pick-place", "place")
    other = variants(FAMILIES["pick-place"], task, seed=1)
    assert other[1].scene != row("pick-place", "place")[1].scene


def test_a_variant_that_cannot_be_made_leaves_a_gap_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    try:
        ensure_gl()
    except SimulationError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(sheet, "STILL", FAST)
    found = row("pick-place", "place")
    gap = Variant(kind="size", caption="size: none", scene=None, draws=60, refused=("too-wide",))
    gapped = variants_sheet([VariantRow(name="pick-place/place", variants=(found[0], gap))])
    whole = variants_sheet([VariantRow(name="pick-place/place", variants=(found[0], found[1]))])
    assert gapped.size == whole.size
    assert gapped.getpixel((gapped.width - 20, 100)) == SOFT
