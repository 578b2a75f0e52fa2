"""The vector memory: Chroma, persistent and embedded, rebuilt from SQLite where they disagree."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import chromadb
from chromadb.config import Settings
from chromadb.errors import ChromaError

from coda.memory.documents import KINDS, Document, Kind, documents
from coda.memory.embedding import MiniLmEmbedding, register
from coda.memory.index_files import IndexWiper
from coda.memory.store import RowStore
from coda.sim.errors import CodaError, UnknownName

COLLECTION = "coda-memory"
_BATCH = 256
_CANDIDATES = 64
"""Neighbours asked of the approximate index before the exact sort."""


class VectorError(CodaError):
    """The vector memory cannot be opened or used as asked."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A remembered text and how near it is."""

    document_id: str
    kind: Kind
    refers_to: str
    text: str
    similarity: float
    """Cosine, at most 1."""


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """Ids that `reconcile` had to write or remove; all empty where the two agreed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def agreed(self) -> bool:
        """Nothing had to be done."""
        return not (self.added or self.changed or self.removed)


class VectorStore:
    """Texts with their embeddings in one folder; SQLite holds the facts, this can be lost.

    One process writes. Chroma loads a collection's index once, so a reader in another process (a
    conversation about a run that is going) passes ``follow=True`` and opens it anew for each query.
    """

    def __init__(self, folder: Path | str, *, follow: bool = False) -> None:
        """Open the folder, or make it.

        Raises `VectorError` in one line: unwritable, or not readable by this version of Chroma.
        """
        self.folder = Path(folder)
        self._follow = follow
        self._wiper = IndexWiper(self.folder)
        register()
        self._client, self._collection = self._open()
        self._wipe()

    def close(self) -> None:
        """Release Chroma's files."""
        self._client.close()
        self._wipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def upsert(self, items: Sequence[Document]) -> None:
        """Write documents, replacing those of the same id."""
        for start in range(0, len(items), _BATCH):
            part = items[start : start + _BATCH]
            self._collection.upsert(
                ids=[item.document_id for item in part],
                documents=[item.text for item in part],
                metadatas=[
                    {"kind": item.kind, "refers_to": item.refers_to, "digest": item.digest()}
                    for item in part
                ],
            )
            self._wipe()

    def nearest(self, text: str, k: int = 5, *, kind: Kind | None = None) -> list[Neighbour]:
        """The `k` nearest documents, nearest first, equal ones by id; all kinds or one."""
        if kind is not None and kind not in KINDS:
            raise UnknownName("kind of memory", kind, KINDS)
        if self._follow:
            self.close()
            self._client, self._collection = self._open()
        held = int(self._collection.count())
        if not held or k < 1:
            return []
        found = self._collection.query(
            query_texts=[text],
            n_results=min(held, max(k, _CANDIDATES)),
            where=None if kind is None else {"kind": kind},
            include=["documents", "metadatas", "distances"],
        )
        rows = zip(
            found["ids"][0],
            found["documents"][0],
            found["metadatas"][0],
            found["distances"][0],
            strict=True,
        )
        neighbours = [
            Neighbour(
                document_id=key, kind=meta["kind"], refers_to=meta["refers_to"], text=document,
                similarity=round(1.0 - float(distance), 6),
            )
            for key, document, meta, distance in rows
        ]  # fmt: skip
        return sorted(neighbours, key=lambda n: (-n.similarity, n.document_id))[:k]

    def ids(self) -> list[str]:
        """Ids of all documents, sorted."""
        return sorted(self._collection.get(include=[])["ids"])

    def reconcile(self, db: RowStore) -> Reconciled:
        """Make the memory hold exactly the documents of the run database's facts.

        Called when a run starts or resumes: a kill between the two stores, or a node that was
        rolled back, leaves them apart.
        """
        wanted = {item.document_id: item for item in documents(db)}
        held = self._collection.get(include=["metadatas"])
        digests = {
            key: (meta or {}).get("digest")
            for key, meta in zip(held["ids"], held["metadatas"], strict=True)
        }
        added = tuple(key for key in wanted if key not in digests)
        changed = tuple(
            key for key, item in wanted.items() if key in digests and digests[key] != item.digest()
        )
        removed = tuple(sorted(key for key in digests if key not in wanted))
        for start in range(0, len(removed), _BATCH):
            self._collection.delete(ids=list(removed[start : start + _BATCH]))
            self._wipe()
        self.upsert([wanted[key] for key in (*added, *changed)])
        return Reconciled(added=added, changed=changed, removed=removed)

    def _wipe(self) -> None:
        if not self._follow:  # the files are the writer's
            self._wiper.wipe()

    def _open(self) -> tuple[Any, Any]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            client = chromadb.PersistentClient(
                path=str(self.folder), settings=Settings(anonymized_telemetry=False)
            )
            collection = client.get_or_create_collection(
                COLLECTION,
                embedding_function=MiniLmEmbedding(),
                configuration={"hnsw": {"space": "cosine", "ef_search": 256}},
            )
        except OSError as error:
            raise VectorError(
                f"cannot make the memory folder {self.folder} ({error.strerror}); "
                "choose a run folder that you can write to."
            ) from None
        except (ChromaError, ValueError, sqlite3.Error) as error:
            reason = " ".join(str(error).split())[:160]
            raise VectorError(
                f"the vector memory in {self.folder} cannot be opened ({reason}); delete that "
                "folder: it is built again from run.db."
            ) from None
        return client, collection
