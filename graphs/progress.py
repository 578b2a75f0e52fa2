"""Live view of a run: a panel in a terminal, plain lines elsewhere. Clocks are for show only."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from coda.graphs.events import RunEvent
from coda.graphs.state import NODES

_WEIGHTS = {
    "seed": 30,
    "plan": 1,
    "build": 10,
    "rollout": 8,
    "diagnose": 2,
    "refute": 30,
    "consolidate": 1,
    "compile": 2,
    "train": 100,
    "measure": 25,
}
_KEEP_LINES = 6


class View(Protocol):
    """Listens to a run inside a ``with`` block."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...
    def __call__(self, event: RunEvent) -> None: ...


def make_view(console: Console, rounds: int, *, quiet: bool = False) -> View:
    """Panel for a terminal, plain lines for a pipe or a file."""
    if quiet or not console.is_terminal:
        return PlainView(console, quiet=quiet)
    return LiveView(console, rounds)


class Eta:
    """Remaining time from the nodes already done, else from typical shares of a round."""

    def __init__(self, rounds: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rounds = rounds
        self._clock = clock
        self._took: dict[str, float] = {}
        self._since = clock()
        self._started = self._since

    @property
    def elapsed_s(self) -> float:
        """Seconds since the view opened."""
        return self._clock() - self._started

    def start(self) -> None:
        """A node begins."""
        self._since = self._clock()

    def finish(self, node: str) -> None:
        """A node ends."""
        self._took[node] = self._clock() - self._since

    def left_s(self, round_: int, node: str, share: float) -> float | None:
        """Seconds left, or None before anything is known; `share` of the node is done."""
        known = sum(_WEIGHTS[name] for name in self._took)
        if not known:
            return None
        scale = sum(self._took.values()) / known
        cost = {name: self._took.get(name, _WEIGHTS[name] * scale) for name in NODES}
        at = NODES.index(node)
        left = sum(cost[name] for name in NODES[at + 1 :]) + cost[node] * (1.0 - share)
        return left + sum(cost[name] for name in NODES[1:]) * max(0, self._rounds - max(round_, 1))


class PlainView:
    """One line an event, for logs."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        del kind, error, at

    def __call__(self, event: RunEvent) -> None:
        if self._quiet or event.kind in ("step", "node-started") or not event.text:
            return
        where = f"[r{event.round:02d} {event.node}] " if event.node else ""
        self._console.print(f"{where}{event.text}", markup=False, highlight=False, soft_wrap=True)


class LiveView:
    """Round, node, counts, success with intervals and the time left, redrawn in place."""

    def __init__(self, console: Console, rounds: int) -> None:
        self._rounds = rounds
        self._eta = Eta(rounds)
        self._round = 0
        self._node = NODES[0]
        self._done = 0.0
        self._total = 0.0
        self._label = ""
        self._lines: list[str] = []
        self._success: list[RunEvent] = []
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        del kind, error, at
        self._live.stop()

    def __call__(self, event: RunEvent) -> None:
        if event.node in NODES:
            self._round, self._node = event.round, event.node
        if event.kind == "node-started":
            self._eta.start()
            self._done, self._total, self._label = 0.0, 0.0, ""
        elif event.kind == "node-finished":
            self._eta.finish(event.node)
        elif event.kind == "step":
            self._done, self._total = float(event.data["done"]), float(event.data["total"])
            self._label = event.text
            return
        elif event.kind == "success":
            self._success.append(event)
        if event.text:
            self._lines = [*self._lines, f"{event.node:>11}  {event.text}"][-_KEEP_LINES:]

    def _draw(self) -> RenderableType:
        share = self._done / self._total if self._total else 0.0
        left = self._eta.left_s(self._round, self._node, share)
        eta = f" · about {clock_text(left)} left" if left is not None else ""
        ending = self._round > self._rounds
        where = "ending" if ending else f"round {self._round}/{self._rounds} · {self._node}"
        head = Text.assemble(
            (where, "bold"), f" · {clock_text(self._eta.elapsed_s)}{'' if ending else eta}"
        )
        parts: list[RenderableType] = [head]
        if self._total:
            row = Table.grid(padding=(0, 1))
            row.add_row(
                ProgressBar(total=self._total, completed=self._done, width=30),
                f"{self._done:.0f}/{self._total:.0f} {self._label}",
            )
            parts.append(row)
        if self._success:
            parts.append(success_table(self._success))
        parts += [
            Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in self._lines
        ]
        return Group(*parts)


def success_table(events: list[RunEvent]) -> Table:
    """Success per round and split, with 95 % intervals."""
    splits = list(dict.fromkeys(str(event.data["split"]) for event in events))
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("round")
    for split in splits:
        table.add_column({"in": "In", "ood": "OOD"}.get(split, split))
    for round_ in dict.fromkeys(event.round for event in events):
        cells = {
            str(event.data["split"]): rate_text(event) for event in events if event.round == round_
        }
        name = "SFT" if round_ == 0 else str(round_)
        table.add_row(name, *(cells.get(split, "") for split in splits))
    return table


def rate_text(event: RunEvent) -> str:
    """A success rate with its interval, e.g. ``41 % [30, 53]  26/64``."""
    data = event.data
    rate = 100.0 * float(data["successes"]) / float(data["trials"])
    low, high = 100.0 * float(data["low"]), 100.0 * float(data["high"])
    return f"{rate:.0f} % [{low:.0f}, {high:.0f}]  {data['successes']}/{data['trials']}"


def clock_text(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
