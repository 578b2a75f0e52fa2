"""Chroma's view of the sentence encoder, under a name that a reopened collection finds again."""

from __future__ import annotations

from typing import Any

from chromadb.api.types import EmbeddingFunction
from chromadb.utils.embedding_functions import register_embedding_function

from coda.policy.text import shared_encoder

EMBEDDING_NAME = "coda-minilm-int8"


class MiniLmEmbedding(EmbeddingFunction):  # type: ignore[misc]  # chromadb is untyped here
    """all-MiniLM-L6-v2 from installed files; nothing is downloaded."""

    def __init__(self) -> None:
        """No settings: the model is fixed."""

    def __call__(self, input: Any) -> Any:
        """Embeddings of a list of texts, one (384,) float32 vector each."""
        return list(shared_encoder().encode(list(input)))

    @staticmethod
    def name() -> str:
        """The name that Chroma stores with a collection."""
        return EMBEDDING_NAME

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> MiniLmEmbedding:
        """Make the function when a stored collection is opened."""
        del config  # There are no settings.
        return MiniLmEmbedding()

    def get_config(self) -> dict[str, Any]:
        """Settings to store: none."""
        return {}

    def default_space(self) -> Any:
        """Vectors have norm 1 and are compared by angle."""
        return "cosine"

    def supported_spaces(self) -> Any:
        """Cosine only."""
        return ["cosine"]


def register() -> None:
    """Tell Chroma of the function; may be called any number of times."""
    register_embedding_function(MiniLmEmbedding)
