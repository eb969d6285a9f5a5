"""The examples of gradient compression in frameworks run, where these are installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

pytestmark = pytest.mark.torch

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")  # Lightning starts its processes
STEPS = 3 * 2048 // (2 * 64)  # epochs, rows, ranks, rows of a batch


def on_two_ranks(framework: str, *script: str) -> str:
    """Run a script on two ranks; return what it prints."""
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    command = [sys.executable, *(TORCHRUN if framework == "accelerate" else ()), *script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("framework", ["accelerate", "lightning"])
def test_a_training_on_two_processes(framework: str) -> None:
    printed = on_two_ranks(framework, str(ROOT / "examples" / f"compress_{framework}.py"))
    losses = [float(each) for each in re.findall(r"epoch \d: loss ([\d.]+)", printed)]
    assert len(losses) == 3 and losses[2] < 0.8 * losses[0]
    steps, ratio = re.search(r"(\d+) steps, ([\d.]+) of the bytes of float32", printed).groups()
    assert int(steps) == STEPS and 0.12 < float(ratio) < 0.17  # 4 of 32 bits, scales and headers


@pytest.mark.parametrize("framework", ["accelerate", "lightning"])
def test_a_resumed_training_is_identical(framework: str, tmp_path: Path) -> None:
    script = str(ROOT / "tests" / "helpers" / "framework_resume.py")
    assert on_two_ranks(framework, script, framework, str(tmp_path)).split()[-1] == "identical"
