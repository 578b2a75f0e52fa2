"""Seeds of every random draw of a run: a pure function of the run's seed, purpose and labels.

The purpose comes first in the spawn key, so that the streams of diagnosing, validating, probing,
training and evaluating never meet, whatever rounds and labels they are used with.
"""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import numpy as np

Purpose = Literal[
    "demonstrate", "build", "diagnose", "validate", "probe", "train", "evaluate", "check"
]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


def sequence(run_seed: int, purpose: Purpose, *labels: str | int) -> np.random.SeedSequence:
    """Seed sequence of a purpose; labels (round, mode, slot …) tell draws of one purpose apart."""
    digest = hashlib.sha256("/".join(str(label) for label in labels).encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.SeedSequence(run_seed, spawn_key=(PURPOSES.index(purpose), *words))


def rng(run_seed: int, purpose: Purpose, *labels: str | int) -> np.random.Generator:
    """Generator of a purpose."""
    return np.random.default_rng(sequence(run_seed, purpose, *labels))


def seed_int(run_seed: int, purpose: Purpose, *labels: str | int) -> int:
    """A 63-bit seed of a purpose, for libraries that take an integer."""
    state = sequence(run_seed, purpose, *labels).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))
