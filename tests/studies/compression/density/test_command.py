"""`python -m bitlane_studies.compression.density`."""

from __future__ import annotations

import sys

import pytest

from bitlane_studies.compression.density.__main__ import main

pytestmark = pytest.mark.torch


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["density", *arguments])
    return main()


def test_a_line_for_each_run(monkeypatch, capsys):
    few = ("--values", "3000", "--steps", "25", "--kinds", "normal", "falling", "--scales", "1e-5", "1")
    assert command(monkeypatch, *few) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 8
    held = [line.split() for line in lines if "quotas" in line]
    assert len(held) == 4 and all(line[3:8] == ["0", "100.0%", "1.000", "1.000", "1.000"] for line in held)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--density", "0"), "density must be above 0 and at most 1; got 0"), (("--steps", "20"), "more than 20")],
)
def test_invalid_options(monkeypatch, capsys, arguments, message):
    try:
        assert command(monkeypatch, *arguments) == 1
    except SystemExit as exit:
        assert exit.code == 2
    assert message in capsys.readouterr().err
