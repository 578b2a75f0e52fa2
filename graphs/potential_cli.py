"""``coda potential``: options only; work is done elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def potential(
    source: Annotated[
        str | None,
        typer.Argument(metavar="[SOURCE]", help="File, FAMILY, FAMILY/TASK, in:N or ood:N."),
    ] = None,
    program: Annotated[
        Path | None, typer.Option(help="Training program to show and check (.json, .yaml).")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Run of --mode, by name or folder; default: the latest.")
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="Show the potential of this mode of a run, e.g. m001.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Version of the mode's potential; default: the latest.")
    ] = None,
    runs_dir: Annotated[Path, typer.Option(help="Folder that holds the run folders.")] = Path(
        "runs"
    ),
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Film (.webp) or picture (.png) to write.")
    ] = Path("potential.webp"),
    text: Annotated[bool, typer.Option("--text", help="Print the tables, draw nothing.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the output file if it exists.")
    ] = False,
) -> None:
    """Show a potential Phi along a rollout of the planner: curve, stages, film and findings.

    SOURCE is as for 'coda scene'. Its family's base potential is shown, or --program, or that of
    a run's mode. The check runs on planner successes and on a planner that never closes its
    fingers; the exit status is 1 if it finds anything.
    """
    from coda.graphs.potential_command import PotentialOptions, potential_command

    options = PotentialOptions(
        source=source,
        program=program,
        runs_dir=runs_dir,
        run=run,
        mode=mode,
        version=version,
        output=output,
        text=text,
        seed=seed,
        force=force,
    )
    raise typer.Exit(potential_command(options))
