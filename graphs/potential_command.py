"""What ``coda potential`` does: Phi along a rollout, beside its film, and what the check finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image as PilImage
from rich.table import Table

from coda.graphs.outputs import may_write, save_output, table_console
from coda.graphs.potential_sources import Subject, find_subject
from coda.policy.potential import Potential, PotentialValue
from coda.policy.potential_base import base_program
from coda.policy.potential_check import check_potential
from coda.policy.program import TrainingProgram
from coda.sim.engine import CONTROL_HZ
from coda.sim.film import Film, film_rollout, write_film
from coda.sim.film_chart import Curve, CurveChart, text_panel
from coda.sim.frame import Array, SimFrame
from coda.sim.gl import ensure_gl
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import Issue
from coda.sim.render import Image
from coda.sim.rollout import EpisodeData, run_scenes
from coda.sim.scene import Scene
from coda.sim.timeline_strip import BAD, GOOD, INK

SUFFIXES = (".webp", ".png")
FILM_SIZE = (270, 360)
CHART_WIDTH = 560
STILLS = 4
"""Pictures over the chart of a ``.png``."""
SHOWN = 6
"""Findings that are written into a picture; all are printed."""


@dataclass(frozen=True, kw_only=True)
class PotentialOptions:
    """What was asked for."""

    source: str | None
    program: Path | None
    runs_dir: Path
    run: str | None
    mode: str | None
    version: int | None
    output: Path
    text: bool
    seed: int
    force: bool


def potential_command(options: PotentialOptions) -> int:
    """Print a potential along a rollout and draw it; 1 if the check finds anything, else 0."""
    if not options.text:
        may_write(options.output, SUFFIXES, force=options.force)
    subject = find_subject(options)
    if not isinstance(subject.program, TrainingProgram):
        print(f"{subject.title}: not a training program")
        _print_findings(subject.program)
        return 1
    if not options.text:
        ensure_gl()
    program = subject.program
    episodes = run_scenes(subject.scenes, ScriptedPlanner(), keep_fine=True)
    failed = [
        episode
        for episode in run_scenes(subject.scenes[:1], never_closing, keep_fine=True)
        if not episode.success
    ]
    issues = check_potential(
        program,
        [SimFrame.unpack(_states(episode)) for episode in episodes if episode.success],
        [SimFrame.unpack(_states(episode)) for episode in failed],
    )
    shown = next((e for e in episodes if e.success), episodes[0])
    value = Potential(program).evaluate(SimFrame.unpack(_states(shown)))
    print(f"{subject.title}: {program.name!r}, family {program.family}")
    solved = sum(episode.success for episode in episodes)
    print(
        f"along the planner in {subject.names[episodes.index(shown)]}: "
        f"{shown.scene.tau.instruction} ({shown.outcome.value}, {shown.steps} control steps); "
        f"checked on {solved} successes of {len(episodes)} and {len(failed)} failure(s)"
    )
    if not solved:
        print("without a success, only what the program says is checked")
    _print_stages(program, value)
    _print_findings(issues)
    if not options.text:
        _draw(options.output, subject, shown, value, issues)
        print(f"picture: {options.output}")
    return int(bool(issues))


def never_closing(frame: SimFrame, active: npt.NDArray[np.bool_]) -> Array:
    """The planner with fingers that never close: a failure to compare with."""
    chunk = ScriptedPlanner()(frame, active).copy()
    chunk[:, :, 6] = -1.0
    return chunk


def _states(episode: EpisodeData) -> Array:
    """Packed states after the reset and every control step, (S + 1, F)."""
    assert episode.fine is not None
    return np.concatenate((episode.frames[:1], episode.fine))


def _print_stages(program: TrainingProgram, value: PotentialValue) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("stage", "share", "entered at step", "steps", "tau at end", "Phi at end"):
        table.add_column(title, justify="left" if title == "stage" else "right")
    for k, stage in enumerate(program.stages):
        here = np.flatnonzero(value.stage == k)
        if not here.size:
            table.add_row(stage.name, f"{stage.share:.2f}", "-", "0", "-", "-")
            continue
        last = int(here[-1])
        table.add_row(
            stage.name,
            f"{stage.share:.2f}",
            f"{here[0]} ({here[0] / CONTROL_HZ:.1f} s)",
            str(len(here)),
            f"{value.tau[last]:.2f}",
            f"{value.phi[last]:.2f}",
        )
    table_console().print(table)


def _print_findings(issues: Sequence[Issue]) -> None:
    if not issues:
        print("check: no findings")
        return
    table = Table(padding=(0, 1, 0, 0))
    for title in ("code", "path", "value", "allowed", "remedy"):
        table.add_column(title, overflow="fold")
    for issue in issues:
        table.add_row(issue.code, issue.path, issue.value, issue.limit, issue.remedy)
    table_console().print(table)
    print(f"check: {len(issues)} finding(s)")


def _draw(
    output: Path,
    subject: Subject,
    episode: EpisodeData,
    value: PotentialValue,
    issues: Sequence[Issue],
) -> None:
    """Write the film with the curve beside it, or a few of its pictures over the curve."""
    program = subject.program
    assert isinstance(program, TrainingProgram)
    names = [program.stages[k].name for k in value.stage.tolist()]
    curves = [Curve(name="Phi", values=value.phi)]
    base = base_program(program.family)
    if program != base:
        theirs = Potential(base).evaluate(SimFrame.unpack(_states(episode))).phi
        curves.append(Curve(name="of the family's base potential", values=theirs))
    film = film_rollout(
        episode.scene,
        episode.actions,
        episode.lengths,
        episode.outcome.value,
        size=FILM_SIZE,
        stages=lambda frames: names[: len(frames)],
    )
    lines = _lines(subject, episode.scene, program, issues)
    if output.suffix.lower() == ".png":
        picture = _still(film, curves, names, lines)
        save_output(output, lambda part: PilImage.fromarray(picture).save(part))
    else:
        pictures = _moving(film, curves, names, lines)
        save_output(output, lambda part: write_film(pictures, part, fps=film.fps))


Lines = Sequence[tuple[str, tuple[int, int, int]]]


def _lines(
    subject: Subject, scene: Scene, program: TrainingProgram, issues: Sequence[Issue]
) -> Lines:
    """Words under the pictures: what it is, and what the check says."""
    lines = [(f"{subject.title}: {program.name}   “{scene.tau.instruction}”", INK)]
    if not issues:
        lines.append(("check: no findings", GOOD))
    lines += [(issue.line(), BAD) for issue in issues[:SHOWN]]
    if len(issues) > SHOWN:
        lines.append((f"… and {len(issues) - SHOWN} more findings", BAD))
    return lines


def _moving(film: Film, curves: Sequence[Curve], names: Sequence[str], lines: Lines) -> list[Image]:
    height, width = film.pictures[0].shape[:2]
    chart = CurveChart(curves, names, (height, CHART_WIDTH))
    words = text_panel(lines, width + CHART_WIDTH)
    return [
        np.concatenate((np.concatenate((view, chart.at(step)), axis=1), words), axis=0)
        for view, step in zip(film.pictures, film.steps, strict=True)
    ]


def _still(film: Film, curves: Sequence[Curve], names: Sequence[str], lines: Lines) -> Image:
    """Evenly spaced pictures without their timelines, the curve, the words."""
    height, width = FILM_SIZE
    chosen = np.linspace(0, len(film.pictures) - 1, STILLS).round().astype(int).tolist()
    row = np.concatenate([film.pictures[i][:height] for i in chosen], axis=1)
    chart = CurveChart(curves, names, (320, width * STILLS)).whole()
    return np.concatenate((row, chart, text_panel(lines, width * STILLS)), axis=0)
