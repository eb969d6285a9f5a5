"""The trial of all compressors: short here, and what its verdict is worth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bitlane.compress.registry import EXAMPLES
from bitlane.studies.compression.wire_bytes import WireTrial, main, verdict

pytestmark = pytest.mark.torch

FINE = WireTrial(10_000_000, 10_010_000, 0.2520, 1.0, "a1")


@pytest.mark.parametrize("ranks", ["2", "3"])
def test_every_compressor_ends_and_keeps_its_promises(ranks, capsys):
    """60,000 values in buckets of 1 MB: what is large enough to be promised is not reached by all of them here."""
    assert main(["--ranks", ranks, "--values", "60000", "--steps", "6", "--timeout", "200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == list(EXAMPLES)
    assert all(line.endswith("holds") for line in lines[2:])


def test_large_payloads(capsys):
    """More than 1 MiB a step: the kernel's bytes and the volume are those that are promised."""
    assert main(["qsgd:bits=8", "efsign", "--ranks", "3", "--values", "8600000", "--steps", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[1] for line in lines] == ["qsgd:bits=8", "efsign"]
    for line in lines:
        declared, socket, ratio = (float(cell) for cell in line.split()[2:5])
        assert declared > 1.05 and declared <= socket and 1 <= ratio <= 1.02


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"socket": 10_210_000}, "rank 1 sends more than it says"),
        ({"volume": 0.27}, "rank 1 sends too much"),
        ({"digest": "b2"}, "rank 1 has another average"),
        ({"declared": 1_000_000, "socket": 2_000_000, "volume": 0.27}, ""),
    ],
)
def test_what_does_not_hold_is_said(change, says):
    assert verdict("qsgd:bits=8", 2, [FINE, replace(FINE, **change), FINE]) == says
