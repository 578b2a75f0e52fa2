"""The sentence encoder: packaged vocabulary, determinism, meaning, no network."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import numpy as np
import pytest

from coda.policy import text as text_module
from coda.policy.text import TEXT_SIZE, VOCAB_PATH, TextEncoder, TextModelError, shared_encoder


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder()


def test_the_vocabulary_is_the_file_that_its_note_describes() -> None:
    note = VOCAB_PATH.with_name("VOCAB.md").read_text(encoding="utf-8")
    assert hashlib.sha256(VOCAB_PATH.read_bytes()).hexdigest() in note
    assert "Apache-2.0" in note
    assert len(VOCAB_PATH.read_text(encoding="utf-8").splitlines()) == 30_522


def test_shape_type_and_norm(encoder: TextEncoder) -> None:
    vectors = encoder.encode(["pick up the cube", "", "ünïcode ☃ " * 400])
    assert vectors.shape == (3, TEXT_SIZE)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert encoder.encode([]).shape == (0, TEXT_SIZE)


def test_a_vector_does_not_depend_on_batch_order_or_cache(encoder: TextEncoder) -> None:
    texts = ["put the can on the plate", "slip", "the gripper misses a rotated block by far"]
    together = encoder.encode(texts)
    fresh = TextEncoder(cache_size=1)
    for text, row in reversed(list(zip(texts, together, strict=True))):
        np.testing.assert_array_equal(fresh.encode([text])[0], row)
        np.testing.assert_array_equal(fresh.encode([text])[0], row)


def test_callers_cannot_spoil_the_cache(encoder: TextEncoder) -> None:
    first = encoder.encode(["lemon"])
    kept = first.copy()
    first[:] = 0.0
    np.testing.assert_array_equal(encoder.encode(["lemon"]), kept)


def test_near_meaning_is_near(encoder: TextEncoder) -> None:
    a, b, c = encoder.encode(
        [
            "the gripper closes beside the object because it is rotated",
            "grasp misses: the object's yaw differs from the demonstrations",
            "the tray is heavy and slips out during transport",
        ]
    )
    assert float(a @ b) > float(a @ c)


def test_no_socket_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    TextEncoder().encode(["offline"])


def test_missing_vocabulary_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(text_module, "VOCAB_PATH", tmp_path / "vocab.txt")
    with pytest.raises(TextModelError, match=r"vocab.txt is missing; install coda-robotics again"):
        TextEncoder()


def test_one_string_is_refused(encoder: TextEncoder) -> None:
    with pytest.raises(TextModelError, match="wrap it in a list"):
        encoder.encode("cube")


def test_shared_encoder_is_one() -> None:
    assert shared_encoder() is shared_encoder()
