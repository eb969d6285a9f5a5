"""The examples of gradient compression in frameworks run, where these are installed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.helpers.places import ROOT

pytestmark = pytest.mark.torch

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")  # Lightning starts its processes
STEPS = 3 * 2048 // (2 * 64)  # epochs, rows, ranks, rows of a batch


@pytest.mark.parametrize("framework", ["accelerate", "lightning"])
def test_a_training_on_two_processes(framework: str) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    example = str(ROOT / "examples" / f"compress_{framework}.py")
    command = [sys.executable, *(TORCHRUN if framework == "accelerate" else ()), example]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = [float(each) for each in re.findall(r"epoch \d: loss ([\d.]+)", done.stdout)]
    assert len(losses) == 3 and losses[2] < 0.8 * losses[0]
    steps, ratio = re.search(r"(\d+) steps, ([\d.]+) of the bytes of float32", done.stdout).groups()
    assert int(steps) == STEPS and 0.12 < float(ratio) < 0.17  # 4 of 32 bits, scales and headers
