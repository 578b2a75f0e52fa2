"""Pieces of work that take turns on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from coda.sim.turns import take_turns


def counting(log: list[int], name: int, turns: int) -> Callable[[], bool]:
    """A piece that writes its name down at every turn, and wants so many."""

    def turn() -> bool:
        log.append(name)
        return log.count(name) < turns

    return turn


def test_one_thread_gives_every_piece_its_turn_in_order() -> None:
    log: list[int] = []
    take_turns([counting(log, 0, 1), counting(log, 1, 3), counting(log, 2, 2)], 1)
    assert log == [0, 1, 2, 1, 2, 1]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_every_piece_has_all_its_turns_on_any_number_of_threads(threads: int) -> None:
    log: list[int] = []
    take_turns([counting(log, name, name + 1) for name in range(6)], threads)
    assert [log.count(name) for name in range(6)] == [1, 2, 3, 4, 5, 6]


def test_two_pieces_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=10)

    def turn() -> bool:
        meeting.wait()  # raises unless both are here
        return False

    take_turns([turn, turn], 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_piece_raises_comes_through_after_the_others_are_done(threads: int) -> None:
    log: list[int] = []

    def broken() -> bool:
        raise ValueError("this piece is broken")

    with pytest.raises(ValueError, match="this piece is broken"):
        take_turns([counting(log, 0, 4), counting(log, 1, 4), broken], threads)
    assert threads == 1 or (log.count(0), log.count(1)) == (4, 4)


def test_no_pieces_are_no_work() -> None:
    take_turns([], 2)
