"""A curve over the time of a rollout, to stand beside its film: blocks, names and a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image as PilImage
from PIL import ImageDraw

from coda.sim.engine import CONTROL_HZ
from coda.sim.frame import Array
from coda.sim.render import Image
from coda.sim.timeline_strip import BAR, CURSOR, DIM, INK, PAPER, STAGES, TICKS_S, blocks, font

TEXT_PX = 12
LEFT, RIGHT, TOP, BOTTOM = 38, 12, 40, 22
MIN_TICK_PX = 42
LINE_PX = 2


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Values in [0, 1] after every control step, the reset first, (S + 1,)."""

    name: str
    values: Array


class CurveChart:
    """Draws curves over blocks of time; only the cursor changes from picture to picture.

    Args:
        curves: The first is drawn strong, the others thin; all of the same length.
        stages: Name of the stage after every control step (S + 1), drawn as blocks.
        size: Height and width [pixels].
    """

    def __init__(
        self, curves: Sequence[Curve], stages: Sequence[str], size: tuple[int, int]
    ) -> None:
        self._curves, self._stages = tuple(curves), tuple(stages)
        self._height, self._width = size
        self._steps = len(curves[0].values) - 1
        self._face = font(TEXT_PX)
        self._static = self._draw()

    def at(self, step: int) -> Image:
        """The chart (H, W, 3) with the cursor, and what the curve says there."""
        picture = self._static.copy()
        draw = ImageDraw.Draw(picture)
        value = float(self._curves[0].values[step])
        x, y = self._x(step), self._y(value)
        draw.line((x, TOP, x, self._y(0.0)), fill=CURSOR, width=1)
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=CURSOR)
        said = f"{self._curves[0].name} = {value:.2f}   {self._stages[step]}"
        draw.text((LEFT, 3), f"{step / CONTROL_HZ:.1f} s   {said}", fill=CURSOR, font=self._face)
        return np.asarray(picture, dtype=np.uint8)

    def whole(self) -> Image:
        """The chart (H, W, 3) without a cursor."""
        return np.asarray(self._static, dtype=np.uint8)

    def _x(self, step: float) -> float:
        return LEFT + (self._width - LEFT - RIGHT) * step / max(1, self._steps)

    def _y(self, value: float) -> float:
        return TOP + (self._height - TOP - BOTTOM) * (1.0 - value)

    def _draw(self) -> PilImage.Image:
        picture = PilImage.new("RGB", (self._width, self._height), PAPER)
        draw = ImageDraw.Draw(picture)
        for k, (start, end, name) in enumerate(blocks(self._stages)):
            x0, x1 = self._x(start), self._x(min(end, self._steps))
            draw.rectangle((x0, TOP, x1, self._y(0.0)), STAGES[k % 2])
            draw.line((x0, TOP, x0, self._y(0.0)), fill=DIM)
            low = float(self._curves[0].values[start:end].mean()) < 0.5
            self._name(picture, name, (x0, x1), top=low)
        for percent in (0, 25, 50, 75, 100):
            y = self._y(percent / 100)
            draw.line((LEFT - 3, y, LEFT, y), fill=DIM)
            draw.text((LEFT - 5, y), f"{percent / 100:g}", fill=DIM, font=self._face, anchor="rm")
        self._axis(draw)
        self._legend(draw)
        for k, curve in reversed(list(enumerate(self._curves))):
            points = [(self._x(i), self._y(float(v))) for i, v in enumerate(curve.values)]
            draw.line(points, fill=DIM if k else BAR, width=1 if k else LINE_PX, joint="curve")
        return picture

    def _name(
        self, picture: PilImage.Image, name: str, span: tuple[float, float], *, top: bool
    ) -> None:
        """A block's name where the curve is not: along its side where it is narrow."""
        x0, x1 = span
        long = round(self._face.getlength(name)) + 2
        foot = self._y(0.0)
        if long <= x1 - x0 - 4:
            at = (x0 + 3, TOP + 2 if top else foot - TEXT_PX - 5)
            ImageDraw.Draw(picture).text(at, name, fill=INK, font=self._face)
        elif x1 - x0 >= TEXT_PX + 1:
            label = PilImage.new("RGBA", (long, TEXT_PX + 4), (0, 0, 0, 0))
            ImageDraw.Draw(label).text((0, 0), name, fill=INK, font=self._face)
            label = label.rotate(90, expand=True)
            y = TOP + 3 if top else round(foot) - long - 3
            picture.paste(label, (round(x0) + 1, y), label)

    def _legend(self, draw: ImageDraw.ImageDraw) -> None:
        x = float(LEFT)
        for k, curve in enumerate(self._curves):
            draw.line((x, 27, x + 16, 27), fill=DIM if k else BAR, width=1 if k else LINE_PX)
            draw.text((x + 20, 20), curve.name, fill=DIM if k else INK, font=self._face)
            x += 36 + self._face.getlength(curve.name)

    def _axis(self, draw: ImageDraw.ImageDraw) -> None:
        seconds = self._steps / CONTROL_HZ
        px = (self._width - LEFT - RIGHT) / max(seconds, 1e-9)
        tick_s = next((t for t in TICKS_S if t * px >= MIN_TICK_PX), TICKS_S[-1])
        y = self._y(0.0)
        for i in range(int(seconds / tick_s) + 1):
            x = self._x(i * tick_s * CONTROL_HZ)
            draw.line((x, y, x, y + 3), fill=DIM)
            anchor = "ra" if x > self._width - 24 else "ma"
            label = f"{i * tick_s:g} s"
            draw.text((x, y + 4), label, fill=DIM, font=self._face, anchor=anchor)


def text_panel(lines: Sequence[tuple[str, tuple[int, int, int]]], width: int) -> Image:
    """Lines of text with their colours, wrapped at `width` pixels, as a picture (H, W, 3)."""
    face = font(TEXT_PX)
    wrapped: list[tuple[str, tuple[int, int, int]]] = []
    for line, colour in lines:
        row = ""
        for word in line.split(" "):
            longer = f"{row} {word}" if row else word
            if row and face.getlength(longer) > width - 16:
                wrapped.append((row, colour))
                row = f"    {word}"
            else:
                row = longer
        wrapped.append((row, colour))
    pitch = TEXT_PX + 4
    height = pitch * len(wrapped) + 10
    picture = PilImage.new("RGB", (width, height + height % 2), PAPER)
    draw = ImageDraw.Draw(picture)
    for i, (row, colour) in enumerate(wrapped):
        draw.text((8, 5 + i * pitch), row, fill=colour, font=face)
    return np.asarray(picture, dtype=np.uint8)
