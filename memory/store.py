"""Typed rows in an SQLite file: what `RunDb` is built on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from coda.memory.rows import AgentCallRow, CostRow, Row, SceneRow
from coda.memory.schema import RunDbError, codec, connect

R = TypeVar("R", bound=Row)


class RowStore:
    """A run database as tables of frozen rows. Safe to share between threads.

    Rows are only ever added; what changes afterwards (the state of a node, of a directive, of an
    interrupted call) changes through the methods of `RunDb`.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False, create: bool = True) -> None:
        """Open the database, or make it where there is none and `create` holds.

        Raises `RunDbError` in one line: unwritable folder, another schema version, another file.
        """
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise RunDbError(f"no run database at {self.path}; give the folder of a run.")
        self._lock = threading.RLock()
        self._depth = 0
        self._connection = connect(self.path, read_only=read_only, version=_coda_version())

    def close(self) -> None:
        """Close the connection; the store cannot be used afterwards."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, also for a kill. May be nested: the outermost one commits."""
        with self._lock:
            if self._depth:
                yield
                return
            self._execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            else:
                self._execute("COMMIT")
            finally:
                self._depth = 0

    def add(self, *rows: Row) -> None:
        """Add rows in one transaction; each one's node must have been begun.

        A scene that is there already stays; a cost is summed; a call replaces the abandoned call
        that it replays. Any other row with a known key is refused with `RunDbError`.
        """
        with self.transaction():
            for row in rows:
                self._add(row)

    def rows(self, row: type[R], *, round_: int | None = None, **equals: Any) -> list[R]:
        """Rows whose fields equal the given values, in the order in which they were added.

        `round_` keeps the rows of that round's nodes. Raises `RunDbError` for an unknown field.
        """
        mapped = codec(row)
        where, values = _where(row, round_, equals)
        found = self._execute(f"{mapped.select}{where} ORDER BY rowid", values)
        return [mapped.decode(row, item) for item in found]

    def count(self, row: type[Row], *, round_: int | None = None, **equals: Any) -> int:
        """Number of rows that `rows` would return."""
        where, values = _where(row, round_, equals)
        return int(self._execute(f"SELECT count(*) FROM {row.table}{where}", values)[0][0])

    def get(self, row: type[R], *key: Any) -> R | None:
        """The row with this primary key, or None."""
        found = self.rows(row, **dict(zip(row.key, key, strict=True)))
        return found[0] if found else None

    def meta(self, key: str) -> str | None:
        """A fact about the whole run, or None."""
        found = self._execute("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else None

    def set_meta(self, key: str, value: str) -> None:
        """Keep a fact about the whole run, replacing an earlier one; not rolled back."""
        if key in ("schema_version", "coda_version"):
            raise RunDbError(f"meta {key!r} is fixed when the database is made; use another key.")
        with self.transaction():
            self._execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def _add(self, row: Row) -> None:
        mapped = codec(type(row))
        values = mapped.encode(row)
        if isinstance(row, SceneRow):
            statement = f"INSERT OR IGNORE {mapped.insert}"
        elif isinstance(row, CostRow):
            total = "amount = amount + excluded.amount"
            statement = f"INSERT {mapped.insert} ON CONFLICT DO UPDATE SET {total}"
        else:
            if isinstance(row, AgentCallRow):
                self._make_room(row)
                values = (*values[:-1], 0)  # a call that is recorded is not abandoned
            statement = f"INSERT {mapped.insert}"
        self._execute(statement, values)

    def _make_room(self, row: AgentCallRow) -> None:
        """Drop the abandoned call that `row` replays, or rename it where the prompt differs."""
        found = self._execute(
            "SELECT prompt_sha FROM agent_calls WHERE call_id = ? AND abandoned", (row.call_id,)
        )
        if not found:
            return
        if found[0][0] == row.prompt_sha:
            self._execute("DELETE FROM agent_calls WHERE call_id = ?", (row.call_id,))
            return
        taken = self._execute(
            "SELECT count(*) FROM agent_calls WHERE call_id GLOB ?", (f"{row.call_id}~*",)
        )
        self._execute(
            "UPDATE agent_calls SET call_id = ? WHERE call_id = ?",
            (f"{row.call_id}~{int(taken[0][0]) + 1}", row.call_id),
        )

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(statement, values).fetchall()
            except sqlite3.IntegrityError as error:
                raise RunDbError(_explain(error, statement, values)) from None
            except sqlite3.OperationalError as error:
                raise RunDbError(
                    f"the run database {self.path} refused a write or a read ({error}); check free "
                    "space and that no other program holds it."
                ) from None


def _explain(error: sqlite3.IntegrityError, statement: str, values: Sequence[Any]) -> str:
    shown = ", ".join(repr(value)[:40] for value in values[:3])
    if "FOREIGN KEY" in str(error):
        return f"row ({shown}, …) names a node that has not begun; call begin_node first."
    return f"row ({shown}, …) is refused: {error}. Rows are added once, under their own key."


def _where(
    row: type[Row], round_: int | None, equals: dict[str, Any]
) -> tuple[str, tuple[Any, ...]]:
    known = {column for column in codec(row).columns if not column.endswith("_json")}
    for name in equals:
        if name not in known:
            raise RunDbError(
                f"{row.table} cannot be searched by {name!r}; choose of {', '.join(sorted(known))}."
            )
    parts = [f'"{name}" IS ?' for name in equals]
    values = list(equals.values())
    if round_ is not None:
        parts.append("node_key GLOB ?")
        values.append(f"r{round_:02d}:*")
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), tuple(values)


def _coda_version() -> str:
    try:
        return version("coda-robotics")
    except PackageNotFoundError:
        return "uninstalled"
