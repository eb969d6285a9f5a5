"""Pieces made in threads ahead of their reader, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Piece = TypeVar("Piece")


def made_ahead(make: Callable[[Item], Piece], items: Iterable[Item], threads: int) -> Iterator[Piece]:
    """Yield ``make(item)`` for each item in order; at most ``threads + 1`` pieces wait or are being made.

    Closing the iterator ends the threads. An error of `make` is raised where its piece would have been yielded.

    Parameters
    ----------
    make : callable
        Called in the threads.
    items : iterable
    threads : int
        At least 1.
    """
    left = iter(items)
    ahead: deque[Future[Piece]] = deque()
    pool = ThreadPoolExecutor(threads, "click-log")
    try:
        while True:
            while len(ahead) <= threads:
                for item in left:
                    ahead.append(pool.submit(make, item))
                    break
                else:
                    break
            if not ahead:
                return
            yield ahead.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
