"""What ``coda scene`` does: draw, check, film, view and show scenes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image as PilImage
from rich.table import Table

from coda.graphs.outputs import OutputError, may_write, save_output, table_console
from coda.graphs.scene_factors import factor_lines
from coda.graphs.stage_names import stage_names
from coda.sim.engine import CONTROL_HZ, BatchSim
from coda.sim.errors import SimulationError, UnknownName
from coda.sim.families import FAMILIES
from coda.sim.film import FILM_SUFFIXES, film_rollout
from coda.sim.gate import Gate, summarise
from coda.sim.gl import ensure_gl, has_screen
from coda.sim.mjcf import compile_scene
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import GenerationProgram, Issue
from coda.sim.render import Camera
from coda.sim.rollout import run_scenes
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.sheet import SceneArtist, draw_sheet, scene_rows, variant_rows, variants_sheet
from coda.sim.sources import Raw, Source, read_source, tasks_named

PICTURE_SUFFIXES = (".png", ".webp", ".jpg", ".jpeg")
CAMERA_SETS: dict[str, tuple[Camera, ...]] = {
    "agentview": ("agentview",),
    "wrist": ("wrist",),
    "both": ("agentview", "wrist"),
}
SINGLE = (480, 640)
"""Height and width of a picture of one scene [pixels]."""
FILM_SIZE = (270, 360)
CHECKED = 8
"""Scenes that are drawn from a program to check it."""
MAX_COUNT = 500


def draw_command(
    text: str, output: Path, *, camera: str, seed: int, count: int | None, force: bool
) -> None:
    """Draw the scenes of a source to `output`, and print what they are."""
    may_write(output, PICTURE_SUFFIXES, force=force)
    cameras = _cameras(camera)
    source = _source(text, count)
    scenes = source.valid_scenes(count=count or 1, seed=seed)
    ensure_gl()
    if len(scenes) == 1:
        with SceneArtist(size=SINGLE, cut=False) as artist:
            picture = PilImage.fromarray(artist.draw(scenes[0][1], cameras))
    else:
        with SceneArtist() as artist:
            picture = draw_sheet(scene_rows(scenes, artist, cameras=cameras, title=text))
    save_output(output, lambda part: picture.save(part))
    for name, scene in scenes:
        print(f"{name}: {scene.tau.instruction} ({scene.digest()})")
    print(f"picture: {output}")


def check_command(text: str, *, seed: int, count: int | None, threads: int) -> int:
    """Print what the gate says about a source; 1 if anything was rejected, else 0."""
    source = _source(text, count)
    gate = Gate(threads=threads)
    rejected: list[tuple[str, Sequence[Issue]]] = []
    items = list(source.scenes)
    if source.program is not None:
        checked = gate.check_program(source.program)
        if not isinstance(checked, GenerationProgram):
            _print_issues([(text, checked)])
            print("verification rate: nothing was drawn, the program itself is rejected")
            return 1
        items, rejected = _drawn(checked, count or CHECKED, seed)
    reports = gate.check([item for _, item in items])
    rejected += [(n, r.issues) for (n, _), r in zip(items, reports, strict=True) if r.issues]
    if rejected:
        _print_issues(rejected)
    undrawn = rejected[: len(rejected) - sum(bool(r.issues) for r in reports)]
    print(summarise(reports, [issues for _, issues in undrawn]).line())
    return int(bool(rejected))


def sheet_command(families: Sequence[str], output: Path, *, seed: int, force: bool) -> int:
    """Draw the variants of tasks and print which scenes are shown; 1 if any has none, else 0."""
    may_write(output, PICTURE_SUFFIXES, force=force)
    names = [name for text in families or tuple(FAMILIES) for name in tasks_named(text)]
    ensure_gl()
    rows = variant_rows(list(dict.fromkeys(names)), seed=seed)
    picture = variants_sheet(rows)
    save_output(output, lambda part: picture.save(part))
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("task", "variant", "scene", "caption", "draws", "refused draws"):
        table.add_column(title)
    for row in rows:
        for one in row.variants:
            refused = ", ".join(f"{n} {code}" for code, n in Counter(one.refused).most_common())
            digest = one.scene.digest() if one.scene else "none passed"
            table.add_row(row.name, one.kind, digest, one.caption, str(one.draws), refused or "-")
    table_console().print(table)
    print(f"picture: {output}")
    return int(any(one.scene is None for row in rows for one in row.variants))


def film_command(text: str, output: Path, *, camera: str, seed: int, force: bool) -> None:
    """Film the planner in the first scene of a source."""
    may_write(output, FILM_SUFFIXES, force=force)
    cameras = _cameras(camera)
    name, scene = read_source(text).valid_scenes(seed=seed)[0]
    ensure_gl()
    episode = run_scenes([scene], ScriptedPlanner())[0]
    film = film_rollout(
        scene,
        episode.actions,
        episode.lengths,
        episode.outcome.value,
        cameras=cameras,
        size=FILM_SIZE,
        stages=lambda frames: stage_names(scene, frames),
    )
    save_output(output, film.write)
    seconds = episode.steps / CONTROL_HZ
    print(f"{name}: {scene.tau.instruction}")
    print(f"planner: {episode.outcome.value} after {seconds:.1f} s ({episode.steps} control steps)")
    print(f"film: {output}")


def view_command(text: str, *, seed: int) -> None:
    """Open the first scene of a source in MuJoCo's viewer, until its window is closed."""
    name, scene = read_source(text).valid_scenes(seed=seed)[0]
    if not has_screen():
        raise SimulationError(
            f"no screen to open {name} on (neither DISPLAY nor WAYLAND_DISPLAY is set); use "
            f"'coda scene draw {text}' for a picture or 'coda scene film {text}' for a film."
        )
    import glfw
    import mujoco
    import mujoco.viewer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glfw's own words; ours follow
        if not glfw.init():
            raise SimulationError(
                f"the screen cannot be opened (DISPLAY = {os.environ.get('DISPLAY', '')!r}); use "
                f"'coda scene draw {text}' for a picture."
            )
    sim = BatchSim([scene])
    sim.reset()
    model = compile_scene(scene, visual=True)
    data = mujoco.MjData(model)
    data.qpos[:] = sim.qpos(0)
    mujoco.mj_forward(model, data)
    print(f"{name}: {scene.tau.instruction}; close the window to go on")
    mujoco.viewer.launch(model, data)


def show_command(text: str, *, seed: int) -> None:
    """Print the first scene of a source as YAML and its factors as comments."""
    name, scene = read_source(text).valid_scenes(seed=seed)[0]
    print(f"# {name}: scene {scene.digest()}")
    print(scene.to_yaml().rstrip())
    print("\n".join(factor_lines(scene)))


def _source(text: str, count: int | None) -> Source:
    """A source; a family with a count becomes the program of its whole range."""
    if count is not None and not 1 <= count <= MAX_COUNT:
        raise OutputError(f"--count = {count}; allowed: 1 to {MAX_COUNT}.")
    source = read_source(text)
    return source if count is None else source.counted()


def _drawn(
    program: GenerationProgram, count: int, seed: int
) -> tuple[list[tuple[str, Scene | Raw]], list[tuple[str, Sequence[Issue]]]]:
    """Scenes drawn from a program, and the draws that its samplers could not make."""
    items: list[tuple[str, Scene | Raw]] = []
    failed: list[tuple[str, Sequence[Issue]]] = []
    for k in range(count):
        try:
            items.append((f"#{k}", sample_scene(program, np.random.default_rng([seed, k]))))
        except Rejected as error:
            failed.append((f"#{k}", error.issues))
    return items, failed


def _print_issues(rejected: Sequence[tuple[str, Sequence[Issue]]]) -> None:
    table = Table(padding=(0, 1, 0, 0), show_lines=False)
    for title in ("scene", "code", "path", "value", "allowed", "remedy"):
        table.add_column(title, overflow="fold")
    for name, issues in rejected:
        for issue in issues:
            table.add_row(name, issue.code, issue.path, issue.value, issue.limit, issue.remedy)
    table_console().print(table)


def _cameras(name: str) -> tuple[Camera, ...]:
    if name not in CAMERA_SETS:
        raise UnknownName("camera", name, CAMERA_SETS)
    return CAMERA_SETS[name]
