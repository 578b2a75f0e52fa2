"""What Chroma's index leaves on disk: the index, and nothing of the process's memory."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from coda.memory.documents import Document
from coda.memory.index_files import IndexWiper
from coda.memory.vectors import VectorStore

DIM = 16
FILES = ("data_level0.bin", "length.bin")


@pytest.fixture
def client(tmp_path: Path) -> Any:
    opened = chromadb.PersistentClient(
        path=str(tmp_path), settings=Settings(anonymized_telemetry=False)
    )
    yield opened
    opened.close()


def header(folder: Path) -> tuple[int, ...]:
    """Format version, offset, capacity, elements and bytes an element of the one index."""
    (path,) = folder.glob("*/header.bin")
    return struct.unpack_from("<i4Q", path.read_bytes())


def unused(folder: Path) -> dict[str, bytes]:
    """The bytes behind the last element."""
    _, _, _, elements, size = header(folder)
    (index,) = (path.parent for path in folder.glob("*/header.bin"))
    found = {}
    for name, each in zip(FILES, (size, 4), strict=True):
        content = (index / name).read_bytes()
        assert len(content) >= elements * each
        found[name] = content[elements * each :]
    return found


def add(collection: Any, vectors: np.ndarray, first: int = 0) -> None:
    ids = [f"{first + i:05d}" for i in range(len(vectors))]
    collection.upsert(ids=ids, embeddings=vectors.tolist(), documents=ids)


def soiled(folder: Path) -> None:
    """Set every unused byte, as whatever `malloc` left there may be."""
    _, _, _, elements, size = header(folder)
    for path in folder.glob("*/*.bin"):
        if path.name in FILES:
            content = bytearray(path.read_bytes())
            start = elements * (size if path.name == FILES[0] else 4)
            content[start:] = b"k" * (len(content) - start)
            path.write_bytes(content)


def test_what_no_element_uses_is_zero_and_the_index_still_answers(
    tmp_path: Path, client: Any
) -> None:
    vectors = np.random.default_rng(0).normal(size=(1300, DIM))
    collection = client.create_collection(
        "vectors", configuration={"hnsw": {"sync_threshold": 500}}
    )
    wiper = IndexWiper(tmp_path)
    add(collection, vectors[:70])
    soiled(tmp_path)
    assert any(any(rest) for rest in unused(tmp_path).values())
    assert wiper.wipe() == 100 * header(tmp_path)[4] + 400
    assert not any(any(rest) for rest in unused(tmp_path).values())
    assert wiper.wipe() == 0  # nothing was written since
    for start in range(70, 1300, 70):
        add(collection, vectors[start : start + 70], first=start)
        wiper.wipe()
        assert not any(any(rest) for rest in unused(tmp_path).values())
    assert header(tmp_path)[3] >= 1000  # it grew over the zeros
    client.close()
    again = chromadb.PersistentClient(
        path=str(tmp_path), settings=Settings(anonymized_telemetry=False)
    ).get_collection("vectors")
    for row in (0, 499, 699, 700, 1299):
        found = again.query(query_embeddings=[vectors[row].tolist()], n_results=1)
        assert found["ids"] == [[f"{row:05d}"]]


def test_the_memory_wipes_as_it_writes_and_as_it_opens(tmp_path: Path) -> None:
    item = Document(document_id="mode:1", kind="mode", text="the block slips", refers_to="1")
    with VectorStore(tmp_path) as store:
        store.upsert([item])
        assert all(not any(rest) for rest in unused(tmp_path).values())
        reader = VectorStore(tmp_path, follow=True)
        soiled(tmp_path)
        assert reader.nearest("slips")[0].document_id == "mode:1"
        assert all(any(rest) for rest in unused(tmp_path).values())  # a reader writes nothing
    with VectorStore(tmp_path) as store:  # a writer that was killed in between
        assert all(not any(rest) for rest in unused(tmp_path).values())
        assert store.nearest("slips")[0].document_id == "mode:1"


@pytest.mark.parametrize("content", [b"", b"\x02" + bytes(99), bytes(104)])
def test_an_unknown_format_is_said_not_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "header.bin").write_bytes(content)
    with pytest.warns(RuntimeWarning, match=r"keys among them, .* before you share the run"):
        assert IndexWiper(tmp_path).wipe() == 0
