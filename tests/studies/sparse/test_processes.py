"""Measured processes: their timing, their cores, their failures."""

from __future__ import annotations

import os
import sys

import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.sparse.processes import run_child, run_program, run_python

BUSY = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"


def test_a_program_is_timed(tmp_path):
    timing = run_program([sys.executable, "-c", BUSY], (min(os.sched_getaffinity(0)),), tmp_path)
    assert timing.cpu_seconds >= 0.2
    assert timing.seconds >= timing.cpu_seconds - 0.05


def test_a_program_runs_on_its_core_in_its_folder_with_one_thread(tmp_path):
    core = max(os.sched_getaffinity(0))
    script = (
        "import json, os, sys\n"
        "assert sys.argv[1:] == ['a']\n"
        f"assert os.sched_getaffinity(0) == {{{core}}}\n"
        f"assert os.getcwd() == {str(tmp_path)!r}\n"
        "assert os.environ['OMP_NUM_THREADS'] == '1'\n"
        "print('words before')\n"
        "print(json.dumps({'seconds': 2.5, 'cpu_seconds': 1.5}))"
    )
    timing = run_python(sys.executable, script, ["a"], (core,), tmp_path)
    assert (timing.seconds, timing.cpu_seconds, timing.loop_seconds) == (2.5, 1.5, None)


def test_a_failure_has_the_last_line_of_its_output(tmp_path):
    command = [sys.executable, "-c", "import sys; print('early', file=sys.stderr); sys.exit('it broke')"]
    with pytest.raises(BitlaneError, match=r"failed: it broke$"):
        run_program(command, (0,), tmp_path)
    with pytest.raises(BitlaneError, match=r"failed: KeyError: 'nobody'$"):
        run_child("nobody", {}, (0,), tmp_path)
