"""H.264 films of episodes, and many of them in one file without encoding again.

Each episode is encoded on its own, on one thread and without looking ahead, so that a file is the
same however many episodes were joined at a time, and frame k of it is shown at k/fps. The
encoder's look-ahead is off for one more reason: on busy machines with AVX-512 about one film in a
hundred came out with other bytes (same picture to the eye) where it was on, none where it was off.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.export_common import ExportError, require

CODEC = "libx264"
KEYFRAME_EVERY = 2
"""Frames from one keyframe to the next: fast random access, as LeRobot's own films have."""
QUALITY = 18
"""Constant rate factor; lower is better, 18 is close to lossless to the eye."""
PIXELS = "yuv420p"
_OPTIONS = {
    "g": str(KEYFRAME_EVERY),
    "bf": "0",
    "crf": str(QUALITY),
    "preset": "veryfast",
    "tune": "zerolatency",
    "threads": "1",
}


def check_size(height: int, width: int) -> None:
    """Raise `ExportError` for a picture size that a film cannot have."""
    if not (16 <= height <= 4096 and 16 <= width <= 4096) or height % 2 or width % 2:
        raise ExportError(
            f"pictures of {height} x {width} pixels; films take even sizes from 16 to 4096."
        )


def encode(pictures: npt.NDArray[np.uint8], path: Path, fps: int) -> None:
    """Write pictures (S, H, W, 3) as a film of S frames.

    Raises:
        ExportError: The encoder is missing.
    """
    av = require("av")
    height, width = pictures.shape[1:3]
    check_size(height, width)
    if CODEC not in av.codecs_available:
        raise ExportError(f"this build of PyAV has no {CODEC} encoder; export with --no-images.")
    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream(CODEC, rate=fps, options=_OPTIONS)
        stream.width, stream.height, stream.pix_fmt = width, height, PIXELS
        for k, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = k, Fraction(1, fps)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


def join(parts: Sequence[Path], path: Path, fps: int) -> int:
    """Put films one after the other into `path`, packet by packet; returns the frames in all."""
    av = require("av")
    frames = 0
    with av.open(str(path), "w", format="mp4", options={"movflags": "faststart"}) as out:
        stream: Any = None
        for part in parts:
            with av.open(str(part)) as source:
                film = source.streams.video[0]
                if stream is None:
                    stream = out.add_stream_from_template(film)
                    stream.time_base = Fraction(1, fps)
                for packet in source.demux(film):
                    if packet.size == 0:  # the demuxer's end mark
                        continue
                    packet.stream = stream
                    packet.time_base = Fraction(1, fps)
                    packet.pts = packet.dts = frames
                    packet.duration = 1
                    out.mux(packet)
                    frames += 1
    return frames


def facts(height: int, width: int, fps: int) -> dict[str, Any]:
    """What LeRobot's ``info.json`` says of a film."""
    return {
        "video.height": height,
        "video.width": width,
        "video.codec": "h264",
        "video.pix_fmt": PIXELS,
        "video.fps": fps,
        "video.channels": 3,
        "video.g": KEYFRAME_EVERY,
        "video.crf": QUALITY,
        "has_audio": False,
        "is_depth_map": False,
    }
