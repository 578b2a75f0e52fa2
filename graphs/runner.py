"""Run and resume: the library's front door. A dozen lines of Python do what ``coda run`` does."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from coda.agents.budget import BudgetExhausted
from coda.graphs.coevolution import build
from coda.graphs.collect import collect
from coda.graphs.config import RunConfig, check_config, make_config
from coda.graphs.deps import Deps, chat_models, close_deps, open_deps
from coda.graphs.events import Listener, RunEvent, silent
from coda.graphs.media import Media
from coda.graphs.report import write_report
from coda.graphs.result import RunResult
from coda.graphs.runfolder import RunFolder, create, find, locked, open_folder, write_atomic
from coda.sim.families import family

STUDIO_RUN = "CODA_RUN"
"""Environment variable that names the run folder for LangGraph's own tools."""


def run(config: RunConfig, *, on_event: Listener | None = None) -> RunResult:
    """Make a run folder and run to the end.

    Args:
        config: See `make_config`.
        on_event: Called with every `RunEvent`, in this thread.

    Raises:
        CodaError: Anything a user can cause, in one line.
    """
    folder, config = start(config)
    return _go(folder, config, on_event or silent)


def start(config: RunConfig) -> tuple[RunFolder, RunConfig]:
    """Refuse what cannot run, before anything is written; then make the run folder.

    Raises:
        CodaError: A missing key, an unknown family, no such memory, an unwritable folder …
    """
    check_config(config)
    family(config.family)
    chat_models(config.models)
    if config.import_memory is not None:
        source = find(Path(config.runs_dir), config.import_memory).path.resolve()
        config = config.model_copy(update={"import_memory": str(source)})
    return create(config)


def resume(run_dir: str | Path, *, on_event: Listener | None = None) -> RunResult:
    """Go on with a stopped or killed run; the result is that of a run never stopped.

    A finished run returns its result without doing anything.
    """
    folder = open_folder(Path(run_dir))
    return _go(folder, folder.read_config(), on_event or silent)


def _go(folder: RunFolder, config: RunConfig, on_event: Listener) -> RunResult:
    with locked(folder):
        if folder.finished:
            result = RunResult.from_json(folder, json.loads(folder.result.read_text("utf-8")))
            if not folder.reported:  # killed between the two
                _report(folder, config)
            return result
        with _opened(folder, config, on_event) as deps:
            on_event(RunEvent(kind="run-started", text=f"{config.name}: {folder.path}"))
            try:
                stop = _drive(folder, deps)
            except BudgetExhausted as error:
                result = collect(folder, deps, str(error))
                _report(folder, config)
            else:
                result = _finish(folder, deps, stop)
    on_event(RunEvent(kind="run-ended", round=result.rounds, text=f"ended: {result.stop}"))
    return result


@contextlib.contextmanager
def _opened(folder: RunFolder, config: RunConfig, on_event: Listener) -> Iterator[Deps]:
    deps = open_deps(folder, config, on_event)
    try:
        yield deps
    finally:
        close_deps(deps)


def _drive(folder: RunFolder, deps: Deps) -> str:
    """Stream the graph from its last checkpoint, or from the start; return why it ended."""
    with contextlib.closing(
        sqlite3.connect(folder.checkpoints, check_same_thread=False)
    ) as connection:
        graph = build(lambda: deps).compile(checkpointer=SqliteSaver(connection))
        thread: RunnableConfig = {
            "configurable": {"thread_id": folder.path.name},
            "recursion_limit": 10_000,
        }
        begun = bool(graph.get_state(thread).created_at)
        start: Any = None if begun else {"round": 0, "updates": 0, "stop": ""}
        for _ in graph.stream(start, thread, stream_mode="updates", durability="sync"):
            pass
        return str(graph.get_state(thread).values["stop"])


def _finish(folder: RunFolder, deps: Deps, stop: str) -> RunResult:
    """Write the result, which marks the run as finished, and then the report, which says so."""
    result = collect(folder, deps, stop)
    write_atomic(folder.result, json.dumps(result.to_json(), indent=1, sort_keys=True) + "\n")
    _report(folder, deps.config)
    return result


def _report(folder: RunFolder, config: RunConfig) -> None:
    off = Media(problem="pictures are off in this run (pictures = false); 'coda report' draws them")
    write_report(folder.path, media=None if config.pictures else off)


def studio_deps() -> Callable[[], Deps]:
    """Dependencies that open when the first node of a graph in LangGraph's tools runs."""
    opened: list[Deps] = []
    held = contextlib.ExitStack()  # the lock, for as long as the process lives

    def deps() -> Deps:
        if not opened:
            named = os.environ.get(STUDIO_RUN)
            if named:
                folder = open_folder(Path(named))
                config = folder.read_config()
            else:
                folder, config = start(make_config("debug"))
            held.enter_context(locked(folder))
            opened.append(open_deps(folder, config, silent))
        return opened[0]

    return deps
