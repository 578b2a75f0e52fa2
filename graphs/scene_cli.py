"""``coda scene``: look at scenes, check them, film them. Options only; work is done elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

scene_app = typer.Typer(
    name="scene",
    no_args_is_help=True,
    rich_markup_mode=None,
    short_help="Draw, check, film and view scenes.",
    help="Look at scenes: draw, check, film, view.\n\n"
    "SOURCE is a scene or generation program file (.json, .yaml), a family such as pick-place, a "
    "task of it as FAMILY/TASK, or a scene of the evaluation files as in:N or ood:N (a span as "
    "ood:0-7, of another family as FAMILY:ood:N).",
)

Source = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="File, FAMILY, FAMILY/TASK, in:N or ood:N."),
]
Seed = Annotated[int, typer.Option(help="Seed of the draws.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
CameraName = Annotated[str, typer.Option(help="agentview, wrist or both.")]


@scene_app.command(short_help="Draw scenes as a picture.")
def draw(
    source: Source,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Picture to write: .png, .webp or .jpg.")
    ] = Path("scene.png"),
    camera: CameraName = "agentview",
    seed: Seed = 0,
    count: Annotated[
        int | None,
        typer.Option(help="Scenes to draw from a program, or from a family's whole range."),
    ] = None,
    force: Force = False,
) -> None:
    """Draw a scene as a picture, or several as a contact sheet."""
    from coda.graphs import scene_command

    scene_command.draw_command(source, output, camera=camera, seed=seed, count=count, force=force)


@scene_app.command(short_help="List why scenes are rejected.")
def check(
    source: Source,
    seed: Seed = 0,
    count: Annotated[
        int | None, typer.Option(help="Scenes to draw from a program or a family; default 8.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of the simulator.")] = 1,
) -> None:
    """Run the validity gate and list what it rejects and why: code, path, value, allowed, remedy.

    Ends with the counts by code and the verification rate. The exit status is 1 if anything was
    rejected.
    """
    from coda.graphs import scene_command

    raise typer.Exit(scene_command.check_command(source, seed=seed, count=count, threads=threads))


@scene_app.command(short_help="Draw the variants of tasks as a figure.")
def sheet(
    families: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FAMILY]...", help="FAMILY or FAMILY/TASK; default: all."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Picture to write: .png, .webp or .jpg.")
    ] = Path("sheet.png"),
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Draw one row a task: seed scene, three spatial perturbations, resized, replaced.

    Every scene shown has passed the validity gate; what was drawn again and why is printed.
    The exit status is 1 if some variant could not be made.
    """
    from coda.graphs import scene_command

    chosen = tuple(families or ())
    raise typer.Exit(scene_command.sheet_command(chosen, output, seed=seed, force=force))


@scene_app.command(short_help="Film the planner in a scene.")
def film(
    source: Source,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Film to write: .webp, or .mp4 with PyAV.")
    ] = Path("film.webp"),
    camera: CameraName = "agentview",
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Film the scripted planner in a scene, with the event timeline under the picture."""
    from coda.graphs import scene_command

    scene_command.film_command(source, output, camera=camera, seed=seed, force=force)


@scene_app.command(short_help="Open MuJoCo's viewer.")
def view(source: Source, seed: Seed = 0) -> None:
    """Open a scene in MuJoCo's interactive viewer; needs a screen."""
    from coda.graphs import scene_command

    scene_command.view_command(source, seed=seed)


@scene_app.command(short_help="Print a scene and its factors.")
def show(source: Source, seed: Seed = 0) -> None:
    """Print a scene as YAML, then its factors by group as comments: the output is a scene file."""
    from coda.graphs import scene_command

    scene_command.show_command(source, seed=seed)
