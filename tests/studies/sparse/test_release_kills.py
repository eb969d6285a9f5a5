"""Kills between training and users: the study's parts, and a short run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytest.importorskip("numba")
pytest.importorskip("starlette")

from bitlane_studies.sparse import release_kills as study


def test_children_of_a_process():
    code = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert study.children_of(parent.pid) == [child]
        subprocess.run(["kill", "-9", str(child)], check=True)
    assert study.children_of(parent.pid) == []


@pytest.mark.slow
def test_some_kills_leave_complete_versions_and_right_answers(capsys, seed):
    study.main(["--kills", "5", "--seed", str(seed)])
    text = capsys.readouterr().out
    assert sum(int(each) for each in re.findall(r"^(?:publisher|validator|service|shard) +(\d+)", text, re.M)) == 5
    assert "all complete; no answer was wrong" in text
