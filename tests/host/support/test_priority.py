"""Priorities of threads."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from bitlane.support.priority import BACKGROUND, yield_to_others


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_only_the_calling_thread_and_its_children_yield() -> None:
    def own() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def work() -> None:
        for _ in range(2):  # a second call changes nothing
            yield_to_others()
        found.append(own())
        child = threading.Thread(target=lambda: found.append(own()))
        child.start()
        child.join()

    before = own()
    if before >= BACKGROUND:
        pytest.skip("the tests themselves run in the background")
    found: list[int] = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [BACKGROUND, BACKGROUND] and own() == before
