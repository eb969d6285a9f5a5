"""A rank that ends, hangs or is cut off: all others raise in time, and name it."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.helpers.hosts import Hosts, missing
from tests.helpers.lost_rank import TIMEOUT
from tests.helpers.places import ROOT

pytestmark = pytest.mark.torch

PROGRAM = "tests.helpers.lost_rank"
SLACK = 20.0  # seconds, on a machine with other work


def check(lines: list[str], lost: int) -> None:
    """Hold what the other ranks print against the lost one. A rank that has raised leaves, and is then named, too."""
    for line in lines:
        found = re.match(r"([\d.]+) rank \d+ got no answer from ranks? ([\d, ]+), which failed, ended or hangs", line)
        assert found and lost in map(int, found[2].split(", ")) and float(found[1]) < TIMEOUT + SLACK, lines


@pytest.mark.parametrize("how", ["end", "hang"])
def test_the_lost_rank_is_named(seed: int, tmp_path: Path, how: str) -> None:
    draw = random.Random(seed)
    size = draw.randint(3, 4)
    lost = draw.randrange(size)
    command = [sys.executable, "-m", PROGRAM]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(size), f"file://{tmp_path / 'store'}", str(lost), how],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    printed = [each.communicate(timeout=120)[0].splitlines()[1:] for each in ranks]
    check([lines[0] for rank, lines in enumerate(printed) if rank != lost], lost)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_rank_behind_a_cut_link_is_named(seed: int) -> None:
    lost = random.Random(seed).randrange(1, 3)  # rank 0 has the store
    with Hosts(3) as hosts:
        address = f"tcp://{hosts.addresses[0]}:29500"
        names = {"GLOO_SOCKET_IFNAME": "eth0", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        ranks = [hosts.python(rank, "-m", PROGRAM, rank, 3, address, lost, "cut", **names) for rank in range(3)]
        outputs = [each.output for each in ranks]  # type: ignore[attr-defined]
        until = time.monotonic() + 120
        while not all("ready" in each.read_text() for each in outputs):
            assert time.monotonic() < until, [each.read_text() for each in outputs]
            time.sleep(0.1)
        hosts.cut(lost)
        for each in ranks:
            each.wait(60)
        lines = [outputs[rank].read_text().splitlines()[-1] for rank in range(3) if rank != lost]
        check(lines, lost)
