"""Who shares the lock, who has it alone, and who waits."""

from __future__ import annotations

import threading
import time

import pytest

from bitlane.errors import BitlaneError
from bitlane.sparse.tables.locks import ReadersWriterLock


class Visitor(threading.Thread):
    """A thread that enters a section, says so, and stays until it is told to leave."""

    def __init__(self, section):
        super().__init__(daemon=True)
        self.section = section
        self.inside, self.leave = threading.Event(), threading.Event()
        self.start()

    def run(self):
        with self.section:
            self.inside.set()
            assert self.leave.wait(30)

    def end(self):
        self.leave.set()
        self.join(30)
        assert not self.is_alive()


def until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within 30 seconds")


def test_threads_share_it():
    lock = ReadersWriterLock()
    visitors = [Visitor(lock.shared) for _ in range(3)]
    assert all(visitor.inside.wait(30) for visitor in visitors)
    with lock.shared:
        pass
    for visitor in visitors:
        visitor.end()


def test_who_wants_it_alone_waits_and_goes_before_new_readers():
    lock = ReadersWriterLock()
    reader = Visitor(lock.shared)
    assert reader.inside.wait(30)
    writer = Visitor(lock.exclusive)
    until(lambda: lock._waiting == 1)
    late = Visitor(lock.shared)
    time.sleep(0.05)
    assert not writer.inside.is_set() and not late.inside.is_set()
    reader.end()
    assert writer.inside.wait(30) and not late.inside.is_set()
    writer.end()
    assert late.inside.wait(30)
    late.end()


def test_it_may_be_entered_again():
    """A reader enters again while a writer waits: if it waited for the writer, both would wait for ever."""
    lock = ReadersWriterLock()
    with lock.shared:
        writer = Visitor(lock.exclusive)
        until(lambda: lock._waiting == 1)
        with lock.shared:
            assert not writer.inside.is_set()
        assert not writer.inside.is_set()
    assert writer.inside.wait(30)
    writer.end()
    with lock.exclusive, lock.shared, lock.exclusive:
        reader = Visitor(lock.shared)
        time.sleep(0.02)
        assert not reader.inside.is_set()
    assert reader.inside.wait(30)
    reader.end()


def test_a_reader_cannot_have_it_alone():
    lock = ReadersWriterLock()
    with lock.shared, pytest.raises(BitlaneError, match="inside `updating`"), lock.exclusive:
        pass
    with lock.exclusive:  # nothing is left behind
        pass


def test_an_error_leaves_the_section():
    lock = ReadersWriterLock()
    for section in (lock.shared, lock.exclusive):
        with pytest.raises(ZeroDivisionError), section:
            raise ZeroDivisionError
    visitor = Visitor(lock.exclusive)
    assert visitor.inside.wait(30)
    visitor.end()
