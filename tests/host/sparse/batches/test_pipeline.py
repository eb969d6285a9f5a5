"""Threads that work ahead: order, bounds, errors, and an end in every case."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator

import numpy as np
import pytest

from bitlane.sparse.batches.pipeline import Channel, EndOfChannel, ahead, close, in_order


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_results_come_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    waits = rng.random(100) * 0.004

    def tasks() -> Generator[Callable[[], int], None, None]:
        for number in range(100):

            def task(number: int = number) -> int:
                time.sleep(waits[number])
                return number

            yield task

    for threads in (1, 4):
        assert list(in_order(tasks(), threads)) == list(range(100))


def test_tasks_run_side_by_side() -> None:
    """Four tasks wait for each other: with fewer threads they would wait for ever."""
    together = threading.Barrier(4, timeout=30)
    assert len(list(in_order((together.wait for _ in range(8)), 4))) == 8


def test_little_is_read_ahead() -> None:
    made = []

    def tasks() -> Generator[Callable[[], int], None, None]:
        for number in range(1000):
            made.append(number)
            yield lambda: 0

    results = in_order(tasks(), 3)
    next(results)
    time.sleep(0.2)
    assert len(made) <= 2 * 3 + 3
    results.close()
    assert len(made) <= 2 * 3 + 4


def test_an_error_comes_behind_the_results_before_it() -> None:
    def task(number: int) -> int:
        if number >= 5:
            raise ValueError(f"task {number}")
        return number

    got = []
    with pytest.raises(ValueError, match=r"task 5"):
        for result in in_order(((lambda number=number: task(number)) for number in range(50)), 4):
            got.append(result)
    assert got == list(range(5))


def test_an_error_of_the_reader_reaches_the_caller() -> None:
    def tasks() -> Generator[Callable[[], int], None, None]:
        yield lambda: 1
        raise OSError("disk")

    got = []
    with pytest.raises(OSError, match=r"disk"):
        for result in ahead(in_order(tasks(), 2), 3):
            got.append(result)
    assert got == [1]


def test_closing_ends_reader_and_threads() -> None:
    closed = threading.Event()

    def tasks() -> Generator[Callable[[], int], None, None]:
        try:
            while True:
                yield lambda: 1
        finally:
            closed.set()

    results = ahead(in_order(tasks(), 4), 2)
    assert next(results) == 1
    results.close()
    assert closed.is_set()
    with pytest.raises(StopIteration):
        next(results)


def test_a_dropped_generator_ends_its_threads() -> None:
    results = ahead(in_order(((lambda: 1) for _ in iter(int, 1)), 2), 2)
    assert next(results) == 1
    del results


def test_nothing_is_started_before_the_first_result() -> None:
    results = ahead(in_order(((lambda: 1) for _ in range(3)), 2), 2)
    results.close()
    assert list(ahead(in_order((task for task in list[Callable[[], int]]()), 2), 2)) == []


def test_an_error_of_closing_reaches_a_caller_who_reads_to_the_end() -> None:
    def items() -> Generator[int, None, None]:
        try:
            yield 1
        finally:
            raise RuntimeError("clean-up")

    with pytest.raises(RuntimeError, match=r"clean-up"):
        list(ahead(items(), 1))


def test_a_channel_that_is_closed_takes_nothing() -> None:
    channel: Channel[int] = Channel(1)
    assert channel.put(1)
    waiting = threading.Thread(target=lambda: results.append(channel.put(2)))
    results: list[bool] = []
    waiting.start()
    channel.close()
    waiting.join(30)
    assert results == [False] and not channel.put(3)
    channel.end()
    with pytest.raises(EndOfChannel):
        channel.take()


def test_close_takes_any_iterator() -> None:
    close(iter([1]))
    generator = (each for each in (1, 2))
    close(generator)
    assert list(generator) == []
