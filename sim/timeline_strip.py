"""The event timeline of a rollout as a strip under its film: bars where a predicate holds."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image as PilImage
from PIL import ImageDraw, ImageFont

from coda.sim.engine import CONTROL_HZ
from coda.sim.errors import SimulationError
from coda.sim.events import watched
from coda.sim.frame import SimFrame
from coda.sim.predicates import evaluate
from coda.sim.render import Image
from coda.sim.roles import ROLES
from coda.sim.terms import PredicateTerm

INK, DIM, PAPER, SOFT = (33, 37, 41), (120, 126, 132), (255, 255, 255), (236, 238, 241)
BAR, CURSOR = (66, 118, 189), (214, 84, 20)
GOOD, BAD = (30, 130, 76), (190, 45, 45)
STAGES = ((223, 230, 241), (203, 215, 233))
"""Backgrounds of neighbouring stages."""
TICKS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0)
"""Distances that ticks of the time axis may have [s]."""
MIN_TICK_PX = 42
GAP_PX = 4


@dataclass(frozen=True, kw_only=True)
class Row:
    """One predicate over time."""

    label: str
    truth: npt.NDArray[np.bool_]
    """Truth after every control step, the reset first, (S + 1,)."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """What the strip shows of a rollout of S control steps."""

    rows: tuple[Row, ...]
    outcome: str
    """``success``, ``timeout`` or ``crashed``."""
    stages: tuple[str, ...] = ()
    """Name of the stage after every control step, (S + 1), or empty."""

    @property
    def steps(self) -> int:
        """Control steps S."""
        return len(self.rows[0].truth) - 1


def short(term: PredicateTerm) -> str:
    """A term in few letters: ``on(target, receptacle)`` is ``on receptacle``."""
    words: list[str] = [] if term.subject == "target" else [term.subject]
    name = term.name.replace("_", " ")
    words += [f"not {name}" if term.negate else name]
    words += [term.reference] if term.reference else []
    return " ".join(words)


def make_timeline(
    frames: npt.NDArray[np.float64],
    outcome: str,
    *,
    goal: Sequence[PredicateTerm] = (),
    stages: Sequence[str] = (),
) -> Timeline:
    """Timeline of packed frames (S + 1, F), the reset first.

    Its rows are the watched terms and those of the `goal` (a scene's verifier) among them, without
    terms of roles that the scene does not have.
    """
    frame = SimFrame.unpack(frames)
    if stages and len(stages) != len(frames):
        raise SimulationError(f"{len(stages)} stage names for {len(frames)} states.")
    present = {role for role, here in zip(ROLES, frame.present[0], strict=True) if here > 0}
    terms: dict[str, PredicateTerm] = {}
    for term in watched(frame, goal):
        if {term.subject, term.reference or term.subject} <= present:
            terms.setdefault(short(term), term)
    rows = tuple(Row(label=k, truth=evaluate(t, frame)[0]) for k, t in terms.items())
    return Timeline(rows=rows, outcome=outcome, stages=tuple(stages))


@functools.cache
def font(size_px: int) -> ImageFont.FreeTypeFont:
    """Pillow's own typeface, the same on every machine."""
    face = ImageFont.load_default(size=size_px)
    if not isinstance(face, ImageFont.FreeTypeFont):
        raise SimulationError("this Pillow has no FreeType, so no letters; pip install pillow.")
    return face


class Strip:
    """Draws a timeline in a given width; only the cursor changes from picture to picture."""

    def __init__(self, timeline: Timeline, width: int) -> None:
        self._t = timeline
        self._text_px = 9 if width < 400 else 12
        self._pitch = self._text_px + 3
        self._face = font(self._text_px)
        self._width = width
        labels = [self._face.getlength(row.label) for row in timeline.rows]
        self._left = min(round(max(labels, default=0)) + 2 * GAP_PX, width // 2)
        self._band = self._pitch + 1 if timeline.stages else 0
        self._top = self._pitch + self._band + 2
        self.height = self._top + self._pitch * len(timeline.rows) + self._pitch + 2
        self.height += self.height % 2  # video codecs want even sides
        self._static = self._draw()

    def at(self, step: int) -> Image:
        """The strip (H, W, 3) with the cursor at a control step."""
        picture = self._static.copy()
        draw = ImageDraw.Draw(picture)
        x = self._x(step)
        bottom = self._top + self._pitch * len(self._t.rows)
        draw.line((x, self._pitch, x, bottom), fill=CURSOR, width=2 if self._width > 400 else 1)
        clock = f"{step / CONTROL_HZ:.1f} s"
        draw.text((GAP_PX, 1), clock, fill=CURSOR, font=self._face)
        return np.asarray(picture, dtype=np.uint8)

    def _x(self, step: float) -> float:
        span = self._width - self._left - 2 * GAP_PX
        return self._left + span * step / max(1, self._t.steps)

    def _draw(self) -> PilImage.Image:
        picture = PilImage.new("RGB", (self._width, self.height), PAPER)
        draw = ImageDraw.Draw(picture)
        self._heading(draw)
        if self._band:
            self._stage_band(draw)
        for i, row in enumerate(self._t.rows):
            y = self._top + i * self._pitch
            ever = bool(row.truth.any())
            ink = INK if ever else DIM
            draw.text((GAP_PX, y), row.label, fill=ink, font=self._face)
            draw.rectangle((self._left, y + 1, self._x(self._t.steps), y + self._pitch - 2), SOFT)
            for start, end in runs(row.truth):
                box = (self._x(start), y + 1, max(self._x(end), self._x(start) + 1))
                draw.rectangle((*box, y + self._pitch - 2), BAR)
        self._axis(draw)
        return picture

    def _heading(self, draw: ImageDraw.ImageDraw) -> None:
        seconds = self._t.steps / CONTROL_HZ
        good = self._t.outcome == "success"
        words = {
            "success": f"solved at {seconds:.1f} s",
            "timeout": f"not solved in {seconds:.1f} s",
        }.get(self._t.outcome, f"{self._t.outcome} at {seconds:.1f} s")
        at = (self._x(self._t.steps), 1)
        draw.text(at, words, fill=GOOD if good else BAD, font=self._face, anchor="ra")

    def _stage_band(self, draw: ImageDraw.ImageDraw) -> None:
        """Stages as coloured blocks, each named where its name fits."""
        y = self._pitch
        draw.text((GAP_PX, y + 1), "stage", fill=INK, font=self._face)
        for k, (start, end, name) in enumerate(blocks(self._t.stages)):
            x0, x1 = self._x(start), self._x(min(end, self._t.steps))
            draw.rectangle((x0, y, x1, y + self._pitch), STAGES[k % 2])
            shown = self._fitted(name, x1 - x0 - 3)
            if shown:
                draw.text((x0 + 2, y + 1), shown, fill=INK, font=self._face)

    def _fitted(self, name: str, room: float) -> str:
        """A name, or its first letters with a full stop; nothing where not three fit."""
        if self._face.getlength(name) <= room:
            return name
        for count in range(len(name) - 1, 2, -1):
            if self._face.getlength(f"{name[:count]}.") <= room:
                return f"{name[:count]}."
        return ""

    def _axis(self, draw: ImageDraw.ImageDraw) -> None:
        seconds = self._t.steps / CONTROL_HZ
        y = self._top + self._pitch * len(self._t.rows)
        px = (self._x(self._t.steps) - self._left) / max(seconds, 1e-9)
        tick_s = next((t for t in TICKS_S if t * px >= MIN_TICK_PX), TICKS_S[-1])
        for i in range(int(seconds / tick_s) + 1):
            x = self._x(i * tick_s * CONTROL_HZ)
            draw.line((x, y, x, y + 2), fill=DIM)
            near_end = x > self._width - 24
            draw.text(
                (x, y + 2), f"{i * tick_s:g} s", fill=DIM, font=self._face,
                anchor="ra" if near_end else "ma",
            )  # fmt: skip


def runs(truth: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where `truth` (N,) holds: first index and the one after the last, at most N - 1."""
    padded = np.concatenate(([False], truth, [False]))
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    last = len(truth) - 1
    return [(int(a), min(int(b), last)) for a, b in edges.reshape(-1, 2)]


def blocks(names: Sequence[str]) -> list[tuple[int, int, str]]:
    """Equal neighbours joined: first index, the one after the last, name."""
    found: list[tuple[int, int, str]] = []
    for i, name in enumerate(names):
        if found and found[-1][2] == name:
            found[-1] = (found[-1][0], i + 1, name)
        else:
            found.append((i, i + 1, name))
    return found
