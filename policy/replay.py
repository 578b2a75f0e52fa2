"""Replay: states of episodes at chunk starts, chunks between them, nothing shaped.

States are stored once, as packed frames; a transition points at its first and its next state, so
that a new potential relabels by evaluating states again. Where the policy sees pictures, every
state has its row of them too; otherwise there are none. Arrays grow by doubling and hand out views:
sampling is index arithmetic, and nothing in the training loop copies the buffer.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from coda.policy.base import PolicyError
from coda.policy.chunks import ACTION_DIM, HORIZON
from coda.policy.growing import Growing
from coda.policy.observation import TEXT_DIM
from coda.sim.cameras import Pictures
from coda.sim.errors import UnknownName
from coda.sim.frame import FRAME_SIZE, SimFrame

REPLAY_VERSION = 1
Source = Literal["planner", "policy", "lookahead"]
SOURCES: tuple[Source, ...] = get_args(Source)
"""Who chose a chunk; a transition stores the index."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_COLUMNS: Mapping[str, tuple[tuple[int, ...], type[np.generic]]] = {
    "state": ((), np.int64),  # row of the first state
    "next_state": ((), np.int64),
    "actions": ((HORIZON, ACTION_DIM), np.float32),
    "steps": ((), np.int64),  # k, executed control steps
    "reward": ((), np.float32),  # undiscounted, paid at step k - 1
    "terminated": ((), np.bool_),
    "truncated": ((), np.bool_),
    "source": ((), np.int8),
    "success": ((), np.bool_),  # of the whole episode
    "round": ((), np.int64),
    "weight": ((), np.float32),
    "episode": ((), np.int64),
}


class EpisodeLike(Protocol):
    """What `Replay.add` reads of `coda.sim.rollout.EpisodeData`."""

    @property
    def success(self) -> bool: ...
    @property
    def frames(self) -> Floats: ...
    @property
    def actions(self) -> Floats: ...
    @property
    def lengths(self) -> Ints: ...
    @property
    def pictures(self) -> Pictures | None: ...


class Replay:
    """States and chunk transitions of many episodes."""

    def __init__(self) -> None:
        self._frames = Growing((FRAME_SIZE,), np.float32)
        self._pictures: Growing | None = None
        self._state_text = Growing((), np.int64)
        self._columns = {name: Growing(*spec) for name, spec in _COLUMNS.items()}
        self._texts = Growing((TEXT_DIM,), np.float32)
        self._text_rows: dict[bytes, int] = {}
        self.episodes = 0

    def __len__(self) -> int:
        """Number of transitions M."""
        return len(self["state"])

    def __getitem__(self, column: str) -> npt.NDArray[Any]:
        """One column over all transitions, (M, ...); a view."""
        return self._columns[column].view

    @property
    def states(self) -> int:
        """Number of stored states S."""
        return len(self._frames.view)

    @property
    def state_text(self) -> Ints:
        """Row of `texts` of every state, (S,)."""
        return self._state_text.view

    @property
    def texts(self) -> npt.NDArray[np.float32]:
        """Different instruction embeddings, (n, E)."""
        return self._texts.view

    def frames(self, start: int = 0, stop: int | None = None) -> SimFrame:
        """States as a frame batch, unpacked from rows start to stop."""
        return SimFrame.unpack(self._frames.view[start:stop])

    @property
    def packed(self) -> npt.NDArray[np.float32]:
        """Packed states (S, F); a view."""
        return self._frames.view

    @property
    def pictures(self) -> Pictures | None:
        """Pictures of every state, (S, cameras, 3, h, w); a view. None where there are none."""
        return None if self._pictures is None else self._pictures.view

    def valid(self) -> npt.NDArray[np.bool_]:
        """Executed steps of every transition, (M, H)."""
        return np.arange(HORIZON) < self["steps"][:, None]

    def add(
        self,
        episode: EpisodeLike,
        text: npt.NDArray[np.float32],
        *,
        source: str,
        round_index: int = 0,
        weight: float = 1.0,
        crashed: bool = False,
    ) -> int:
        """Add one episode; returns its number of transitions.

        Args:
            episode: T chunks; a success is terminal and pays 1 at its last step. An episode
                that ran into the step limit is truncated, not terminated. Its pictures, if it
                has any, are kept.
            text: Embedding of its instruction, (E,).
            source: Who chose the chunks, one of `SOURCES`.
            round_index: Round it was collected in.
            weight: Weight of its chunks in the actor's loss.
            crashed: The simulator failed: the last chunk's next state is not trusted and that
                transition is left out.
        """
        _known(source)
        count = len(episode.lengths) - int(crashed)
        if count <= 0:
            return 0
        last = np.arange(count) == count - 1
        shown = None if episode.pictures is None else episode.pictures[: count + 1]
        first = self._add_states(episode.frames[: count + 1], text, shown)
        return self._append(
            {
                "state": first + np.arange(count),
                "next_state": first + 1 + np.arange(count),
                "actions": episode.actions[:count],
                "steps": episode.lengths[:count],
                "reward": last & episode.success,
                "terminated": last & episode.success,
                "truncated": last & (not episode.success),
            },
            source=source,
            success=episode.success,
            round_index=round_index,
            weight=weight,
        )

    def add_transitions(
        self,
        frames: Floats,
        actions: Floats,
        lengths: Ints,
        success: npt.NDArray[np.bool_],
        text: npt.NDArray[np.float32],
        *,
        pictures: Pictures | None = None,
        source: str = "lookahead",
        round_index: int = 0,
        weight: float = 1.0,
        episode_success: bool,
    ) -> int:
        """Add the transitions of one search that need not follow each other; returns M.

        Args:
            frames: Packed states before and after each chunk, (M, 2, F).
            actions: Chunks (M, H, 7).
            lengths: Executed control steps, (M,).
            success: Whether the chunk met the verifier: terminal, pays 1; (M,).
            text: Embedding of the instruction, (E,).
            pictures: Of the same states, (M, 2, cameras, 3, h, w).
            source: Who chose the chunks.
            round_index: Round it was collected in.
            weight: Weight of its chunks in the actor's loss.
            episode_success: Whether the search as a whole succeeded.
        """
        _known(source)
        count = len(lengths)
        if not count:
            return 0
        shown = None if pictures is None else pictures.reshape(2 * count, *pictures.shape[2:])
        first = self._add_states(frames.reshape(2 * count, FRAME_SIZE), text, shown)
        return self._append(
            {
                "state": first + 2 * np.arange(count),
                "next_state": first + 2 * np.arange(count) + 1,
                "actions": actions,
                "steps": lengths,
                "reward": success,
                "terminated": success,
                "truncated": np.zeros(count, np.bool_),
            },
            source=source,
            success=episode_success,
            round_index=round_index,
            weight=weight,
        )

    def _add_states(
        self, frames: Floats, text: npt.NDArray[np.float32], pictures: Pictures | None
    ) -> int:
        """Append packed states; returns the first one's row."""
        first = self.states
        row = self._text_row(text)
        self._add_pictures(pictures, len(frames))
        self._frames.append(frames.astype(np.float32))
        self._state_text.append(np.full(len(frames), row))
        return first

    def _add_pictures(self, pictures: Pictures | None, count: int) -> None:
        """Append pictures of `count` states that follow. Raises `PolicyError`: all or none."""
        if self._pictures is None and pictures is not None and not self.states:
            self._pictures = Growing(pictures.shape[1:], np.uint8)
        held = None if self._pictures is None else self._pictures.view.shape[1:]
        given = None if pictures is None else pictures.shape[1:]
        if held != given or (pictures is not None and len(pictures) != count):
            raise PolicyError(
                f"a replay whose {self.states} states have pictures {held} was given {count} "
                f"states with pictures {given}; every state has them, of one shape, or none has."
            )
        if self._pictures is not None and pictures is not None:
            self._pictures.append(pictures)

    def _append(
        self,
        values: dict[str, npt.NDArray[Any]],
        *,
        source: str,
        success: bool,
        round_index: int,
        weight: float,
    ) -> int:
        count = len(values["state"])
        constants = {
            "source": SOURCES.index(source),
            "success": success,
            "round": round_index,
            "weight": weight,
            "episode": self.episodes,
        }
        for name, growing in self._columns.items():
            growing.append(values[name] if name in values else np.full(count, constants[name]))
        self.episodes += 1
        return count

    def _text_row(self, text: npt.NDArray[np.float32]) -> int:
        flat = np.ascontiguousarray(text, dtype=np.float32).reshape(-1)
        if flat.shape != (TEXT_DIM,):
            raise ValueError(f"text: expected shape {(TEXT_DIM,)} but got {text.shape}")
        key = flat.tobytes()
        if key not in self._text_rows:
            self._text_rows[key] = len(self._texts.view)
            self._texts.append(flat[None])
        return self._text_rows[key]

    def save(self, path: Path, *, round_index: int | None = None) -> int:
        """Write the episodes of one round (all where None) to an npz; returns the transitions."""
        rows = np.arange(len(self))
        if round_index is not None:
            rows = np.flatnonzero(self["round"] == round_index)
        columns = {name: growing.view[rows] for name, growing in self._columns.items()}
        both = np.concatenate([columns["state"], columns["next_state"]])
        states, back = np.unique(both, return_inverse=True)
        columns["state"], columns["next_state"] = np.split(back.reshape(-1), 2)
        _, columns["episode"] = np.unique(columns["episode"], return_inverse=True)
        texts, text_back = np.unique(self.state_text[states], return_inverse=True)
        shown = {} if self.pictures is None else {"pictures": self.pictures[states]}
        write = np.savez_compressed if shown else np.savez  # pictures: a tenth of their size
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        with part.open("wb") as file:
            write(
                file,
                version=np.array([REPLAY_VERSION, FRAME_SIZE]),
                frames=self.packed[states],
                state_text=text_back.reshape(-1),
                texts=self.texts[texts],
                **shown,
                **columns,  # type: ignore[arg-type]
            )
        part.replace(path)
        return len(rows)

    def load(self, path: Path) -> int:
        """Append what `save` wrote; returns the transitions. Raises `PolicyError`."""
        try:
            with np.load(path, allow_pickle=False) as file:
                data = {name: file[name] for name in file.files}
        except FileNotFoundError:
            raise PolicyError(f"{path} does not exist; give a shard that was saved.") from None
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise PolicyError(f"{path} is not a replay shard ({error}); collect again.") from None
        found = data.get("version", np.zeros(0)).tolist()
        missing = sorted({"frames", "state_text", "texts", *_COLUMNS} - set(data))
        if found != [REPLAY_VERSION, FRAME_SIZE] or missing:
            raise PolicyError(
                f"{path}: replay version {found}, missing columns {missing}; this version reads "
                f"{[REPLAY_VERSION, FRAME_SIZE]}. Collect the episodes again."
            )
        text_rows = np.array([self._text_row(text) for text in data["texts"]], dtype=np.int64)
        base = self.states
        self._add_pictures(data.get("pictures"), len(data["frames"]))
        self._frames.append(data["frames"])
        self._state_text.append(text_rows[data["state_text"]])
        data["state"], data["next_state"] = data["state"] + base, data["next_state"] + base
        data["episode"] = data["episode"] + self.episodes
        for name, growing in self._columns.items():
            growing.append(data[name])
        if len(data["episode"]):
            self.episodes = int(data["episode"].max()) + 1
        return len(data["state"])


def _known(source: str) -> None:
    if source not in SOURCES:
        raise UnknownName("replay source", source, SOURCES)
