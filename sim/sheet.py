"""Contact sheets: rows of scenes with captions, such as the variants of each task."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image as PilImage
from PIL import ImageDraw

from coda.sim.engine import BatchSim
from coda.sim.errors import SimulationError
from coda.sim.families import family
from coda.sim.render import STILL, Camera, Image, Quality, SceneRenderer
from coda.sim.scene import Scene
from coda.sim.timeline_strip import DIM, INK, PAPER, SOFT, font
from coda.sim.variants import Variant, variants

TILE = (264, 340)
"""Height and width of one picture on a sheet [pixels]."""
DRAWN = (320, 426)
"""Height and width at which a scene is drawn before it is cut to `TILE` [pixels]."""
CUT_TOP = 40
"""Rows left out above: wall and upper arm [pixels]."""
MARGIN, TITLE_PX, TEXT_PX, LINE_PX = 10, 17, 13, 16
CAPTION_LINES = 2
COLUMNS = 4


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A picture and its caption; an empty tile where there is none."""

    picture: Image | None
    caption: str


@dataclass(frozen=True, kw_only=True)
class SheetRow:
    """Tiles that belong together."""

    title: str
    subtitle: str
    tiles: tuple[Tile, ...]


class SceneArtist:
    """Draws scenes one after another in one GL context. Use as a context manager."""

    def __init__(
        self, *, size: tuple[int, int] = DRAWN, quality: Quality | None = None, cut: bool = True
    ) -> None:
        self._size, self._quality, self._cut = size, quality or STILL, cut
        self._renderer: SceneRenderer | None = None

    def __enter__(self) -> SceneArtist:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._renderer is not None:
            self._renderer.close()

    def draw(self, scene: Scene, cameras: Sequence[Camera] = ("agentview",)) -> Image:
        """A scene after its reset, its cameras side by side."""
        sim = BatchSim([scene])
        sim.reset()
        if self._renderer is None:
            self._renderer = SceneRenderer(scene, size=self._size, quality=self._quality)
        self._renderer.point_at(scene)
        views = [self._renderer.draw(sim.qpos(0), camera=camera) for camera in cameras]
        sim.close()
        return np.concatenate([self._cropped(view) for view in views], axis=1)

    def _cropped(self, view: Image) -> Image:
        if not self._cut:
            return view
        height, width = TILE
        left = (view.shape[1] - width) // 2
        return view[CUT_TOP : CUT_TOP + height, left : left + width]


def draw_sheet(rows: Sequence[SheetRow]) -> PilImage.Image:
    """Rows of tiles of one size, each row with a title line. Raises `SimulationError` for none."""
    shapes = {t.picture.shape for row in rows for t in row.tiles if t.picture is not None}
    if not shapes:
        raise SimulationError("no pictures for a contact sheet.")
    height, width = max(s[0] for s in shapes), max(s[1] for s in shapes)
    columns = max(len(row.tiles) for row in rows)
    heads = [TITLE_PX + LINE_PX + 8 if row.title else 0 for row in rows]
    foot = height + CAPTION_LINES * LINE_PX + MARGIN
    total = sum(heads) + len(rows) * foot + MARGIN
    sheet = PilImage.new("RGB", (columns * (width + MARGIN) + MARGIN, total), PAPER)
    pen = ImageDraw.Draw(sheet)
    y = MARGIN
    for row, head in zip(rows, heads, strict=True):
        pen.text((MARGIN, y), row.title, fill=INK, font=font(TITLE_PX))
        pen.text((MARGIN, y + TITLE_PX + 3), row.subtitle, fill=DIM, font=font(TEXT_PX))
        for c, tile in enumerate(row.tiles):
            x = MARGIN + c * (width + MARGIN)
            if tile.picture is None:
                pen.rectangle((x, y + head, x + width - 1, y + head + height - 1), fill=SOFT)
            else:
                sheet.paste(PilImage.fromarray(tile.picture), (x, y + head))
            for k, line in enumerate(_lines(tile.caption, width)):
                at = (x, y + head + height + 2 + k * LINE_PX)
                pen.text(at, line, fill=INK, font=font(TEXT_PX))
        y += head + foot
    return sheet


def _lines(caption: str, width: int) -> list[str]:
    """A caption in at most `CAPTION_LINES` lines of a width [pixels]."""
    letters = max(8, int(width / (0.54 * TEXT_PX)))
    return textwrap.wrap(caption, letters, max_lines=CAPTION_LINES, placeholder=" …")


def scene_rows(
    scenes: Iterable[tuple[str, Scene]],
    artist: SceneArtist,
    *,
    cameras: Sequence[Camera] = ("agentview",),
    title: str = "",
    columns: int = COLUMNS,
) -> tuple[SheetRow, ...]:
    """Named scenes as rows of at most `columns` tiles; captions hold name and instruction."""
    tiles = [
        Tile(picture=artist.draw(scene, cameras), caption=f"{name}: {scene.tau.instruction}")
        for name, scene in scenes
    ]
    parts = [tuple(tiles[i : i + columns]) for i in range(0, len(tiles), columns)]
    return tuple(
        SheetRow(title=title if i == 0 else "", subtitle="", tiles=part)
        for i, part in enumerate(parts)
    )


@dataclass(frozen=True, kw_only=True)
class VariantRow:
    """The variants of one task of a family."""

    name: str
    """``family/task``."""
    variants: tuple[Variant, ...]


def variant_rows(names: Sequence[tuple[str, str]], *, seed: int = 0) -> tuple[VariantRow, ...]:
    """Variants of tasks, given as (family, task); see `coda.sim.variants`."""
    rows = []
    for family_name, task_name in names:
        item = family(family_name)
        found = variants(item, item.tasks[task_name], seed=seed)
        rows.append(VariantRow(name=f"{family_name}/{task_name}", variants=found))
    return tuple(rows)


def variants_sheet(rows: Sequence[VariantRow]) -> PilImage.Image:
    """Rows of variants as one picture; every scene on it has passed the validity gate."""
    with SceneArtist() as artist:
        drawn = [
            SheetRow(
                title=row.name,
                subtitle=next((v.scene.tau.instruction for v in row.variants if v.scene), ""),
                tiles=tuple(
                    Tile(picture=artist.draw(v.scene) if v.scene else None, caption=v.caption)
                    for v in row.variants
                ),
            )
            for row in rows
        ]
    return draw_sheet(drawn)
