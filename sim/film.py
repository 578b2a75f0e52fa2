"""Films as animated WebP, which every browser plays from inside a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image as PilImage

from coda.sim.errors import SimulationError
from coda.sim.render import Image


def write_webp(pictures: Sequence[Image], path: Path, *, fps: float = 10.0) -> Path:
    """Write pictures (H, W, 3) as an animated WebP. Raises `SimulationError` for no pictures."""
    if not pictures:
        raise SimulationError(f"no pictures to write to {path}.")
    frames = [PilImage.fromarray(picture) for picture in pictures]
    frames[0].save(
        path,
        format="WEBP",
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 / fps),
        loop=0,
        quality=70,
        method=3,
    )
    return path


def contact_sheet(pictures: Sequence[Image], *, columns: int) -> PilImage.Image:
    """Pictures of equal size in a grid."""
    if not pictures:
        raise SimulationError("no pictures for a contact sheet.")
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    sheet = PilImage.new("RGB", (columns * width, rows * height), (255, 255, 255))
    for i, picture in enumerate(pictures):
        spot = ((i % columns) * width, (i // columns) * height)
        sheet.paste(PilImage.fromarray(picture), spot)
    return sheet
