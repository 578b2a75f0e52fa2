"""Work in pieces that take turns on a few threads."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait

Turn = Callable[[], bool]
"""One turn of a piece of work; whether it wants another."""


@functools.cache
def _helpers(count: int) -> ThreadPoolExecutor:
    """Threads beside the caller's own, shared by all batches and joined at exit."""
    return ThreadPoolExecutor(count, thread_name_prefix="coda-turns")


def take_turns(pieces: Iterable[Turn], threads: int) -> None:
    """Call every piece until it wants no other turn, on up to `threads` threads at once.

    The piece that has waited longest goes next, so that all get equally far and no thread is left
    with a long rest. Raises what a piece raises, after the others are done.
    """
    waiting = deque(pieces)

    def work() -> None:
        while waiting:
            try:
                turn = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            if turn():
                waiting.append(turn)

    count = min(threads, len(waiting)) - 1
    if count < 1:
        work()
        return
    jobs = [_helpers(threads - 1).submit(work) for _ in range(count)]
    try:
        work()
    finally:
        wait(jobs)
    for job in jobs:
        job.result()
