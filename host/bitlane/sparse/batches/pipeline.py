"""Threads that work ahead: ordered results, bounded memory; errors reach the caller, and closing ends all threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Channel(Generic[T]):
    """A queue between one thread that puts and one that takes; either may close it.

    Parameters
    ----------
    capacity : int
        `put` waits while so many items are in the queue.
    """

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._items: deque[T] = deque()
        self._change = threading.Condition()
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    def put(self, item: T) -> bool:
        """Add an item; return False if the taker has closed the queue."""
        with self._change:
            self._change.wait_for(lambda: self._closed or len(self._items) < self._capacity)
            if self._closed:
                return False
            self._items.append(item)
            self._change.notify_all()
            return True

    def end(self, error: BaseException | None = None) -> None:
        """Say that no item will follow; with `error`, because of it."""
        with self._change:
            self._ended, self._error = True, error
            self._change.notify_all()

    def take(self) -> T:
        """Return the next item.

        Raises
        ------
        EndOfChannel
            The queue has ended.
        BaseException
            The error of `end`, behind the items that came before it.
        """
        with self._change:
            self._change.wait_for(lambda: self._items or self._ended)
            if self._items:
                item = self._items.popleft()
                self._change.notify_all()
                return item
            if self._error is not None:
                raise self._error
            raise EndOfChannel

    def close(self) -> None:
        """Drop all items; `put` returns False from now on."""
        with self._change:
            self._closed = True
            self._items.clear()
            self._change.notify_all()


class EndOfChannel(Exception):
    """The queue is empty and will stay so."""


def ahead(items: Generator[T, None, None], capacity: int) -> Generator[T, None, None]:
    """Yield `items`, which a thread makes ahead.

    Parameters
    ----------
    items : generator
        It runs in the thread, and is closed there.
    capacity : int
        Items that wait at most.
    """
    channel: Channel[T] = Channel(capacity)

    def work() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                if not channel.put(item):
                    break
        except BaseException as caught:
            error = caught
        finally:
            try:
                items.close()
            except BaseException as caught:
                error = error or caught
            channel.end(error)

    thread = threading.Thread(target=work, name="bitlane-reader", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = channel.take()
            except EndOfChannel:
                return
            yield item
            del item
    finally:
        channel.close()
        thread.join()


def in_order(
    tasks: Generator[Callable[[], T], None, None], threads: int, closing: threading.Event | None = None
) -> Generator[T, None, None]:
    """Yield the results of tasks in their order.

    One thread makes the tasks; `threads` run them. At most ``2 * threads + 2`` tasks and results are held.

    Parameters
    ----------
    tasks : generator of callables
    threads : int
    closing : threading.Event, optional
        Set before the thread that makes the tasks is waited for: a generator that waits for ever ends then.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="bitlane-parser") as pool:

        def submitted() -> Generator[Future[T], None, None]:
            try:
                for task in tasks:
                    yield pool.submit(task)
            finally:
                tasks.close()

        futures = ahead(submitted(), 2 * threads)
        try:
            for future in futures:
                result = future.result()
                del future
                yield result
                del result
        finally:
            if closing is not None:
                closing.set()
            futures.close()
            pool.shutdown(wait=True, cancel_futures=True)


def close(items: Iterator[object]) -> None:
    """Close a generator, if `items` is one."""
    closer = getattr(items, "close", None)
    if closer is not None:
        closer()
