"""Pictures of failed rollouts for a critic that sees: start, best state and end."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image as PilImage

from coda.policy.potential import Potential
from coda.sim.frame import SimFrame
from coda.sim.render import Image, replay
from coda.tools.evaluation import Trial

EPISODES = 2
SIZE = (240, 320)
EVERY = 4
"""Control steps between two pictures that are looked at."""


def keyframes(trials: Sequence[Trial], base: Potential) -> dict[str, bytes]:
    """PNG pictures by reference ``<episode>@<step>``, three of each of the first failures.

    Raises:
        SimulationError: There is no off-screen OpenGL.
    """
    found: dict[str, bytes] = {}
    for trial in [t for t in trials if t.success is False][:EPISODES]:
        episode = trial.episode
        pictures, steps = replay(
            episode.scene, episode.actions, episode.lengths, every=EVERY, size=SIZE
        )
        phi = base.evaluate(SimFrame.unpack(episode.frames)).phi
        best_step = int(episode.lengths[: int(phi.argmax())].sum())
        best = min(range(len(steps)), key=lambda i: abs(steps[i] - best_step))
        for i in sorted({0, best, len(steps) - 1}):
            found[f"{trial.episode_id}@{steps[i]}"] = png(pictures[i])
    return found


def png(picture: Image) -> bytes:
    """A picture (H, W, 3) as PNG."""
    stream = io.BytesIO()
    PilImage.fromarray(picture).save(stream, format="PNG")
    return stream.getvalue()
