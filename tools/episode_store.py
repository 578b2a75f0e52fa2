"""Episodes in one file: a later node, or a resumed process, reads what an earlier one saw."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.errors import CodaError
from coda.sim.rollout import EpisodeData, Outcome
from coda.sim.scene import Scene
from coda.tools.evaluation import Trial

VERSION = 1


class EpisodeStoreError(CodaError):
    """An episode file is missing, damaged or of another version."""


def save_trials(path: Path, trials: Sequence[Trial]) -> None:
    """Write trials to one ``.npz``; a kill leaves the old file or the new one, never half."""
    facts = [
        {
            "episode_id": trial.episode_id,
            "progress": trial.progress,
            "stage": trial.stage,
            "outcome": trial.episode.outcome.value,
            "steps": trial.episode.steps,
            "chunks": int(trial.episode.lengths.size),
            "fine": trial.episode.fine is not None,
            "state_size": 0 if trial.episode.states is None else trial.episode.states.shape[1],
            "scene": trial.episode.scene.model_dump(mode="json"),
        }
        for trial in trials
    ]
    episodes = [trial.episode for trial in trials]
    kept = [e.fine for e in episodes if e.fine is not None]
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as handle:
        np.savez(
            handle,
            header=np.array(json.dumps({"version": VERSION, "episodes": facts})),
            frames=_join([e.frames for e in episodes]),
            actions=_join([e.actions for e in episodes]),
            lengths=_join([e.lengths for e in episodes]),
            fine=_join(kept),
            states=_join([e.states.ravel() for e in episodes if e.states is not None]),
        )
    os.replace(part, path)


def load_trials(path: Path) -> list[Trial]:
    """Read what `save_trials` wrote, bit for bit.

    Raises:
        EpisodeStoreError: In one line.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        header = json.loads(str(arrays["header"]))
    except (OSError, ValueError, KeyError) as error:
        raise EpisodeStoreError(f"cannot read the episodes in {path} ({error}).") from None
    if header.get("version") != VERSION:
        raise EpisodeStoreError(
            f"{path} has episode version {header.get('version')}; this version reads {VERSION}."
        )
    at = {"frames": 0, "actions": 0, "lengths": 0, "fine": 0, "states": 0}

    def take(name: str, rows: int) -> npt.NDArray[Any]:
        start = at[name]
        at[name] += rows
        return np.asarray(arrays[name][start : start + rows])

    trials = []
    for fact in header["episodes"]:
        chunks, size = fact["chunks"], fact.get("state_size", 0)
        episode = EpisodeData(
            scene=Scene.model_validate(fact["scene"]),
            outcome=Outcome(fact["outcome"]),
            steps=fact["steps"],
            frames=take("frames", chunks + 1),
            actions=take("actions", chunks),
            lengths=take("lengths", chunks),
            fine=take("fine", fact["steps"]) if fact["fine"] else None,
            states=take("states", chunks * size).reshape(chunks, size) if size else None,
        )
        trials.append(
            Trial(
                episode_id=fact["episode_id"],
                episode=episode,
                progress=fact["progress"],
                stage=fact["stage"],
            )
        )
    return trials


def _join(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros((0,))
