"""Tables of the run database, its version, and how a file is opened, created or refused."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter

from coda.memory.rows import Row
from coda.sim.errors import CodaError

SCHEMA_VERSION = 2
"""Version of the tables below; a run database of another version is refused."""
BUSY_S = 30.0
"""How long a writer waits for another process's transaction [s]."""

TABLES: tuple[str, ...] = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE node_runs (
        ordinal INTEGER PRIMARY KEY AUTOINCREMENT, node_key TEXT NOT NULL UNIQUE, round INTEGER,
        node TEXT NOT NULL, status TEXT NOT NULL, started REAL NOT NULL, seconds REAL,
        attempts INTEGER NOT NULL, summary_json TEXT NOT NULL)""",
    """CREATE TABLE scenes (
        digest TEXT PRIMARY KEY, node_key TEXT NOT NULL REFERENCES node_runs(node_key),
        scene_json TEXT NOT NULL)""",
    """CREATE TABLE episodes (
        episode_id TEXT PRIMARY KEY, node_key TEXT NOT NULL REFERENCES node_runs(node_key),
        purpose TEXT NOT NULL, scene_digest TEXT NOT NULL, success INTEGER, steps INTEGER NOT NULL,
        progress REAL NOT NULL, axis TEXT NOT NULL, program TEXT NOT NULL, mode_id TEXT,
        detail_json TEXT NOT NULL)""",
    """CREATE TABLE proposals (
        proposal_id TEXT PRIMARY KEY, node_key TEXT NOT NULL REFERENCES node_runs(node_key),
        program_json TEXT NOT NULL, accepted INTEGER NOT NULL, rejected INTEGER NOT NULL,
        issues_json TEXT NOT NULL, codes_json TEXT NOT NULL, mode_id TEXT, call_id TEXT,
        seconds REAL NOT NULL)""",
    """CREATE TABLE agent_calls (
        call_id TEXT PRIMARY KEY, node_key TEXT NOT NULL REFERENCES node_runs(node_key),
        seq INTEGER NOT NULL, role TEXT NOT NULL, task TEXT NOT NULL, model TEXT NOT NULL,
        prompt_sha TEXT NOT NULL, messages_json TEXT NOT NULL, answer_json TEXT NOT NULL,
        tool_calls_json TEXT NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,
        cost_usd REAL, seconds REAL NOT NULL, status TEXT NOT NULL, attempts INTEGER NOT NULL,
        links_json TEXT NOT NULL, abandoned INTEGER NOT NULL)""",
    """CREATE TABLE decisions (
        node_key TEXT NOT NULL REFERENCES node_runs(node_key), seq INTEGER NOT NULL,
        kind TEXT NOT NULL, text TEXT NOT NULL, "by" TEXT NOT NULL, links_json TEXT NOT NULL,
        PRIMARY KEY (node_key, seq))""",
    """CREATE TABLE directives (
        directive_id TEXT PRIMARY KEY, created REAL NOT NULL, text TEXT NOT NULL,
        action_json TEXT NOT NULL, status TEXT NOT NULL, consumed_round INTEGER,
        consumed_by TEXT)""",
    """CREATE TABLE mode_versions (
        mode_id TEXT NOT NULL, version INTEGER NOT NULL,
        node_key TEXT NOT NULL REFERENCES node_runs(node_key), mode_json TEXT NOT NULL,
        PRIMARY KEY (mode_id, version))""",
    """CREATE TABLE diagnoses (
        diagnosis_id TEXT PRIMARY KEY, node_key TEXT NOT NULL REFERENCES node_runs(node_key),
        diagnosis_json TEXT NOT NULL, call_id TEXT)""",
    """CREATE TABLE control_tests (
        test_id TEXT PRIMARY KEY, node_key TEXT NOT NULL REFERENCES node_runs(node_key),
        diagnosis_id TEXT NOT NULL, verdict TEXT NOT NULL, test_json TEXT NOT NULL,
        call_id TEXT)""",
    """CREATE TABLE progress (
        node_key TEXT NOT NULL REFERENCES node_runs(node_key), round INTEGER NOT NULL,
        split TEXT NOT NULL, label TEXT NOT NULL, successes INTEGER NOT NULL,
        trials INTEGER NOT NULL, PRIMARY KEY (node_key, split, label))""",
    """CREATE TABLE costs (
        node_key TEXT NOT NULL REFERENCES node_runs(node_key), kind TEXT NOT NULL,
        amount REAL NOT NULL, PRIMARY KEY (node_key, kind))""",
    "CREATE INDEX episodes_by_node ON episodes(node_key)",
    "CREATE INDEX episodes_by_purpose ON episodes(purpose)",
    "CREATE INDEX agent_calls_by_node ON agent_calls(node_key, seq)",
)

ROLLED_BACK: tuple[str, ...] = (
    "episodes",
    "proposals",
    "decisions",
    "mode_versions",
    "diagnoses",
    "control_tests",
    "progress",
    "costs",
    "scenes",
)
"""Tables whose rows are deleted when their node is rolled back."""

R = TypeVar("R", bound=Row)


class RunDbError(CodaError):
    """The run database cannot be opened, read or written as asked."""


class Codec:
    """Maps one row class to the columns of its table and back."""

    def __init__(self, row: type[Row]) -> None:
        hints = get_type_hints(row)
        self.names = tuple(f.name for f in fields(row))
        self._adapters = {n: TypeAdapter[Any](hints[n]) for n in self.names if _is_json(hints[n])}
        self._bools = {n for n in self.names if hints[n] in (bool, bool | None)}
        self.columns = tuple(f"{n}_json" if n in self._adapters else n for n in self.names)
        quoted = ", ".join(f'"{c}"' for c in self.columns)
        marks = ", ".join("?" * len(self.columns))
        self.insert = f"INTO {row.table} ({quoted}) VALUES ({marks})"
        self.select = f"SELECT {quoted} FROM {row.table}"

    def encode(self, row: Row) -> tuple[Any, ...]:
        """Values in the order of `columns`. JSON has sorted keys, so equal rows are equal bytes."""
        return tuple(self._encode(name, getattr(row, name)) for name in self.names)

    def decode(self, row: type[R], values: tuple[Any, ...]) -> R:
        """Inverse of `encode`."""
        pairs = zip(self.names, values, strict=True)
        return row(**{name: self._decode(name, value) for name, value in pairs})

    def _encode(self, name: str, value: Any) -> Any:
        adapter = self._adapters.get(name)
        if adapter is not None:
            plain = adapter.dump_python(value, mode="json")
            value = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        # A model's text may hold lone surrogates, which UTF-8 cannot.
        return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value

    def _decode(self, name: str, value: Any) -> Any:
        if name in self._bools and value is not None:
            return bool(value)
        adapter = self._adapters.get(name)
        return value if adapter is None else adapter.validate_json(value)


_CODECS: dict[str, Codec] = {}


def codec(row: type[Row]) -> Codec:
    """The codec of a row class, made at its first use."""
    if row.table not in _CODECS:
        _CODECS[row.table] = Codec(row)
    return _CODECS[row.table]


def connect(path: Path, *, read_only: bool, version: str) -> sqlite3.Connection:
    """Open a run database, or create one; refuses other files and other schema versions.

    Raises `RunDbError` where the folder cannot be written, the file is none of ours, or its
    schema has another version.
    """
    if read_only and not path.is_file():
        raise RunDbError(
            f"no run database at {path}; give the folder of a run, as 'coda run' printed it."
        )
    if not read_only:
        _make_folder(path.parent)
    try:
        connection = sqlite3.connect(
            _uri(path, read_only=read_only), uri=True, timeout=BUSY_S, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not read_only:
            _create(connection, version)
        _check_version(connection, path)
    except sqlite3.OperationalError as error:
        raise RunDbError(
            f"cannot open the run database {path} ({error}); "
            "check that the folder exists, can be written and has free space."
        ) from None
    except sqlite3.DatabaseError:
        raise RunDbError(
            f"{path} is not a CoDA run database; give the folder of a run, or another new folder."
        ) from None
    return connection


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDbError(
            f"cannot make the run folder {folder} ({error.strerror}); choose one you can write to."
        ) from None
    if not os.access(folder, os.W_OK):
        raise RunDbError(f"the run folder {folder} is not writable; choose one you can write to.")


def _uri(path: Path, *, read_only: bool) -> str:
    base = path.resolve().as_uri()
    if not read_only:
        return base
    # A closed database in a folder we cannot write to: SQLite could not make its -shm file.
    sealed = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
    return f"{base}?{'immutable=1' if sealed else 'mode=ro'}"


def _create(connection: sqlite3.Connection, version: str) -> None:
    """Make the tables of an empty file, all or nothing; another process may do so too."""
    is_empty = "SELECT count(*) = 0 FROM sqlite_master"
    if not connection.execute(is_empty).fetchone()[0]:
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute(is_empty).fetchone()[0]:
            for statement in TABLES:
                connection.execute(statement)
            facts = (("schema_version", str(SCHEMA_VERSION)), ("coda_version", version))
            connection.executemany("INSERT INTO meta VALUES (?, ?)", facts)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not {"meta", "node_runs"} <= tables:
        raise sqlite3.DatabaseError("not ours")
    facts = dict(connection.execute("SELECT key, value FROM meta"))
    found = facts.get("schema_version")
    if found != str(SCHEMA_VERSION):
        raise RunDbError(
            f"the run database {path} has schema version {found} (written by coda "
            f"{facts.get('coda_version', '?')}); this coda reads version {SCHEMA_VERSION}. "
            "Open it with the coda that wrote it, or start a new run in another folder."
        )


def _is_json(hint: Any) -> bool:
    """Whether values of this type are stored as JSON rather than as an SQLite value."""
    if hint is Any:
        return True
    plain = (str, int, float, bool, type(None))
    options = getattr(hint, "__args__", ())
    if getattr(hint, "__origin__", None) is not None and str(hint).startswith("typing.Literal"):
        return False
    if type(hint).__name__ in ("UnionType", "_UnionGenericAlias"):
        return not all(option in plain for option in options)
    return hint not in plain
