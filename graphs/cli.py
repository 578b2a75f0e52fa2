"""The ``coda`` command. A user's error is one line on stderr and exit status 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from coda.sim.errors import CodaError

app = typer.Typer(
    name="coda",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    help="CoDA: a simulation data engine and an action policy that co-evolve.\n\n"
    "'coda run' starts a whole run, with no key, no GPU and no server. 'coda chat' talks with the "
    "curriculum agent about a run and steers it, 'coda trace' shows who decided what and why.",
)

RunsDir = Annotated[Path, typer.Option(help="Folder that holds the run folders.")]
RunName = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Name or folder of a run; default: the latest."),
]
RUNS = Path("runs")


@app.command()
def run(
    preset: Annotated[
        str, typer.Option(help="laptop (minutes), debug (seconds) or paper (a cluster).")
    ] = "laptop",
    config: Annotated[
        Path | None, typer.Option(help="YAML file with settings; the same tree as config.yaml.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="One setting, e.g. --set training.updates=500. May be repeated.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the run; default: <preset>-<n>.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    rounds: Annotated[int | None, typer.Option(help="Rounds of co-evolution.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random draw.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Chat model of the agents: offline (rules, no language model), openai:<name> or "
            "anthropic:<name>."
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server for the model.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of the simulator.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Start with the modes of this earlier run folder.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with --name, or with the latest unfinished run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the final summary only.")] = False,
) -> None:
    """Run the whole co-evolution: generate, fail, diagnose, refute, train, measure.

    Progress is shown while it goes on; a summary and the path of report.html at the end. Stop it
    with Ctrl-C, or kill it: 'coda run --resume' goes on, to the same result.
    """
    from coda.graphs import commands

    settings = commands.RunOptions(
        preset=preset,
        config=config,
        overrides=tuple(set_ or ()),
        name=name,
        runs_dir=runs_dir,
        rounds=rounds,
        seed=seed,
        model=model,
        base_url=base_url,
        threads=threads,
        memory=memory,
    )
    raise typer.Exit(commands.run_command(settings, resume_run=resume, quiet=quiet))


@app.command()
def graph() -> None:
    """Print the drawing of the graph (mermaid)."""
    from coda.graphs.coevolution import mermaid

    typer.echo(mermaid().rstrip())


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("coda-robotics"))


def main() -> None:
    """Entry point of the ``coda`` command."""
    try:
        app()
    except CodaError as error:
        print(f"coda: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
