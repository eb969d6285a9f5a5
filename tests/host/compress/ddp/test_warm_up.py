"""The loops of a compressor are compiled before the first step, by one process of a machine."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")
pytestmark = pytest.mark.torch

CHILD = """
import sys
from numba.core import event
from bitlane.compress import QSGD
from bitlane.compress.ddp.warm_up import warm_up

class Counter(event.Listener):
    compiled = 0
    def on_start(self, _):
        Counter.compiled += 1
    def on_end(self, _):
        pass

with event.install_listener("numba:compile", Counter()):
    warm_up(QSGD(bits=4), 2)
    first = Counter.compiled
    warm_up(QSGD(bits=4), 2)
print(first, Counter.compiled - first)
"""


def test_one_process_compiles_and_the_others_load(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba"), "BITLANE_CACHE": str(tmp_path / "bitlane")}
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    counts = [tuple(map(int, child.communicate(timeout=240)[0].split())) for child in children]
    assert sorted(first > 0 for first, _ in counts) == [False, False, True]
    assert all(later == 0 for _, later in counts)
