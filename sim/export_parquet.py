"""Tables of a LeRobotDataset v3.0: frames, episodes and tasks, as parquet files.

A file grows by being written again with one more row group for each new episode, under another
name, and then renamed: whoever opens it finds a complete footer at any moment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.export_common import require


def frames_table(columns: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Arrow table of an episode's frames; (S, D) becomes a list column of fixed size D."""
    pa = require("pyarrow")
    arrays = {}
    for name, values in columns.items():
        if values.ndim == 1:
            arrays[name] = pa.array(values)
        else:
            flat = pa.array(np.ascontiguousarray(values).ravel())
            arrays[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pa.table(arrays)


def episodes_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Arrow table of ``meta/episodes`` with one row an episode."""
    pa = require("pyarrow")
    return pa.table({name: [row[name] for row in rows] for name in rows[0]})


def tasks_table(tasks: Sequence[str]) -> Any:
    """Arrow table of ``meta/tasks.parquet``, which pandas reads with the task as its index."""
    pa = require("pyarrow")
    table = pa.table({"task_index": pa.array(range(len(tasks)), pa.int64()), "task": list(tasks)})
    kinds = {"task_index": ("int64", "int64"), "task": ("unicode", "object")}
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {"name": n, "field_name": n, "pandas_type": p, "numpy_type": t, "metadata": None}
            for n, (p, t) in kinds.items()
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.3.3",
    }
    return table.replace_schema_metadata({"pandas": json.dumps(pandas)})


def write_grown(old: Path, tables: Sequence[Any], part: Path) -> None:
    """Write to `part` what `old` holds (if it is there) and the tables, a row group each."""
    pq = require("pyarrow.parquet")
    schema = tables[0].schema
    with pq.ParquetWriter(str(part), schema, compression="snappy") as writer:
        if old.exists():
            with pq.ParquetFile(str(old)) as source:
                for group in range(source.num_row_groups):
                    writer.write_table(source.read_row_group(group).cast(schema))
        for table in tables:
            writer.write_table(table)


def write_joined(old: Path, table: Any, part: Path) -> None:
    """Write to `part` what `old` holds (if it is there) and the table, as one row group."""
    pa, pq = require("pyarrow"), require("pyarrow.parquet")
    if old.exists():
        table = pa.concat_tables([pq.read_table(str(old)).cast(table.schema), table])
    pq.write_table(table, str(part), compression="snappy")


def write_whole(table: Any, part: Path) -> None:
    """Write one table to a file."""
    require("pyarrow.parquet").write_table(table, str(part), compression="snappy")
