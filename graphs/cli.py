"""The ``coda`` command. A user's error is one line on stderr and exit status 2."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from pathlib import Path
from typing import Annotated

import typer

from coda.graphs.potential_cli import potential
from coda.graphs.scene_cli import scene_app
from coda.sim.errors import CodaError


def _with_groups() -> typer.Typer:
    """The command, with its groups of sub-commands."""
    main_app = typer.Typer(
        name="coda",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode=None,
        help="CoDA: a simulation data engine and an action policy that co-evolve.\n\n"
        "'coda run' starts a whole run, with no key, no GPU and no server. 'coda chat' talks with "
        "the curriculum agent about a run and steers it, 'coda trace' shows who decided "
        "what and why. 'coda scene' draws, checks and films scenes, 'coda potential' shows what "
        "is rewarded along a rollout.",
    )
    main_app.add_typer(scene_app)
    main_app.command(short_help="Show a potential along a rollout, and check it.")(potential)
    return main_app


app = _with_groups()

RunsDir = Annotated[Path, typer.Option(help="Folder that holds the run folders.")]
RunName = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Name or folder of a run; default: the latest."),
]
RUNS = Path("runs")


@app.command(short_help="Run the whole co-evolution.")
def run(
    preset: Annotated[
        str,
        typer.Option(help="laptop (minutes), families (weak start), debug or paper (a cluster)."),
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


@app.command(short_help="Ask the curriculum agent, and steer a run.")
def chat(
    run: RunName = None,
    runs_dir: RunsDir = RUNS,
    model: Annotated[
        str | None, typer.Option(help="Chat model; default: the run's curriculum model.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server for the model.")
    ] = None,
    say: Annotated[
        list[str] | None,
        typer.Option("--say", help="Say this and print the answer, no prompt. May be repeated."),
    ] = None,
) -> None:
    """Talk with the curriculum agent about a run, finished or going, and steer it.

    What you ask to change becomes a recorded directive, which the next plan of the run takes up.
    Leave with an empty line, 'exit' or Ctrl-D.
    """
    from coda.graphs.conversation import chat_command

    chat_command(runs_dir, run, model, base_url, tuple(say or ()))


@app.command(short_help="Show who decided what, and why.")
def trace(
    run: RunName = None,
    runs_dir: RunsDir = RUNS,
    round_: Annotated[int | None, typer.Option("--round", help="Only this round.")] = None,
    node: Annotated[str | None, typer.Option(help="Only this node, e.g. refute.")] = None,
    role: Annotated[str | None, typer.Option(help="Only calls of this role, e.g. critic.")] = None,
    status: Annotated[
        str | None, typer.Option(help="Only calls that ended so, e.g. retried.")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="Only what concerns this mode.")] = None,
    call: Annotated[
        str | None, typer.Option(help="One agent call in full, e.g. 'r02:refute#003'.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="JSON with a fixed schema.")] = False,
) -> None:
    """Show who decided what and why: rounds, nodes, agent calls, and what they rest on."""
    from coda.graphs.runfolder import find
    from coda.graphs.trace_data import Filters
    from coda.graphs.trace_view import show

    filters = Filters(round=round_, node=node, role=role, status=status, mode=mode)
    show(find(runs_dir, run).path, filters=filters, call=call, json_output=json_)


@app.command(short_help="Write report.html again.")
def report(run: RunName = None, runs_dir: RunsDir = RUNS) -> None:
    """Write report.html again, also of a run that goes on, and print its path."""
    from coda.graphs.report import write_report
    from coda.graphs.runfolder import find

    typer.echo(write_report(find(runs_dir, run).path))


@app.command(short_help="Export demonstrations and rollouts.")
def export(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder (lerobot) or file (hdf5) to write.")
    ],
    run: RunName = None,
    runs_dir: RunsDir = RUNS,
    planner: Annotated[
        str | None,
        typer.Option(metavar="FAMILY[/TASK]", help="Demonstrate this family with the planner."),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="lerobot (LeRobotDataset v3.0) or hdf5 (robomimic).")
    ] = "lerobot",
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Most episodes; default: all, or 50 demonstrations.")
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="Only rollouts with this purpose, e.g. evaluate-ood.")
    ] = None,
    program: Annotated[
        str, typer.Option(help="Scenes of the demonstrations: seed (narrow) or wide.")
    ] = "seed",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the demonstrations' scenes.")] = 0,
    failures: Annotated[
        bool, typer.Option("--failures/--no-failures", help="Export failed episodes too.")
    ] = False,
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Film with both cameras; needs OpenGL.")
    ] = False,
    image_size: Annotated[int, typer.Option(help="Side of the pictures [pixels].")] = 256,
    privileged: Annotated[
        bool,
        typer.Option("--privileged/--no-privileged", help="Also true poses, which no robot sees."),
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads of simulator and cameras.")] = 2,
    force: Annotated[
        bool, typer.Option("--force", help="Move an earlier export aside; it is kept.")
    ] = False,
) -> None:
    """Export a run's rollouts, or new demonstrations (--planner), for other people's tools.

    Each episode is simulated again and exported only if it comes out the same; scene, seed, model
    and exact actions are exported with it. A killed export leaves a whole, shorter one.
    """
    from coda.graphs.export_command import ExportOptions, export_command

    options = ExportOptions(
        output=output,
        format=format_,
        run=run,
        runs_dir=runs_dir,
        planner=planner,
        program=program,
        purpose=purpose,
        episodes=episodes,
        failures=failures,
        images=images,
        image_size=image_size,
        privileged=privileged,
        seed=seed,
        threads=threads,
        force=force,
    )
    raise typer.Exit(export_command(options))


@app.command(short_help="Check this machine.")
def doctor(runs_dir: RunsDir = RUNS) -> None:
    """Check this machine: versions, simulator, OpenGL, keys, memory model, disk, run folders."""
    from coda.graphs.doctor import check, print_checks

    raise typer.Exit(print_checks(check(runs_dir)))


@app.command(short_help="Print the drawing of the graph.")
def graph() -> None:
    """Print the drawing of the graph (mermaid)."""
    from coda.graphs.coevolution import mermaid

    typer.echo(mermaid().rstrip())


@app.command(short_help="Print the version.")
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("coda-robotics"))


def _check_gl() -> None:
    """Refuse a bad `MUJOCO_GL` before MuJoCo does: its import fails with a traceback."""
    value = os.environ.get("MUJOCO_GL", "")
    if value.lower().strip() not in ("", "egl", "osmesa", "glfw"):
        raise CodaError(
            f"MUJOCO_GL = {value!r}; allowed: egl, osmesa, glfw, or unset to have one chosen."
        )


def _no_space(error: OSError | sqlite3.OperationalError) -> bool:
    """Whether a disk or a quota is full."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "disk is full" in str(error)


def main() -> None:
    """Entry point of the ``coda`` command."""
    try:
        _check_gl()
        app()
    except CodaError as error:
        print(f"coda: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except (OSError, sqlite3.OperationalError) as error:
        if not _no_space(error):
            raise
        print(
            "coda: the disk is full; free some space and go on with 'coda run --resume', "
            "nothing finished is lost.",
            file=sys.stderr,
        )
        sys.exit(2)
