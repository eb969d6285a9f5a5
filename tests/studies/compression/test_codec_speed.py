"""The measurement of codecs: complete rows, correct quantization errors, and one line for an invalid option."""

from __future__ import annotations

import math

import pytest

from bitlane.cli.main import main
from bitlane_studies.compression.codec_speed import measure_codecs, speed_table

pytestmark = pytest.mark.torch


def test_bytes_and_errors():
    done = []
    rows = measure_codecs(
        ["linear-8", "linear-2", "sign", "select-0.01", "log-8", "top-0.01"],
        [1 << 16],
        1,
        1,
        False,
        lambda: done.append(1),
    )
    assert [row.operation for row in rows[:4]] == [
        "linear-8 encode",
        "linear-8 encode stochastically, feedback",
        "linear-8 decode",
        "linear-8 decode and add",
    ]
    assert len(rows) == 19 and len(done) == 6
    found = {row.operation: row for row in rows}
    assert found["linear-8 encode"].bytes_per_value == 1 + 4 / 512
    assert found["sign encode"].bytes_per_value == 1 / 8 + 4 / 512
    assert found["select-0.01"].bytes_per_value == pytest.approx(0.12, rel=0.05)
    assert found["log-8 decode and add"].bytes_per_value == 1 + 4 / 512 and found["log-8 encode"].relative_error < 0.02
    assert found["top-0.01 decode"].bytes_per_value == pytest.approx(0.01 * (4 + 8.1 / 8), rel=0.05)
    assert found["sign encode"].relative_error == pytest.approx(
        math.sqrt(1 - 2 / math.pi), rel=0.02
    )  # error of the signs of normal values
    assert found["linear-8 encode"].relative_error < 0.01 < found["linear-2 encode"].relative_error
    assert all(row.seconds > 0 and row.relative_to_copy > 0 for row in rows)
    assert len(speed_table(rows).splitlines()) == 21


def test_a_table_from_the_command_line(capsys):
    assert main(["bench-compress", "--size", "0.01", "--repeat", "1", "--codecs", "sign,select-0.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7 and lines[0].split()[:3] == ["operation", "MiB", "GB/s"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--codecs linear-9", "unknown codec 'linear-9': give sign"),
        ("--codecs linear", "unknown codec 'linear': give sign"),
        ("--codecs select-2", "unknown codec 'select-2'"),
        ("--codecs log-1", "unknown codec 'log-1'"),
        ("--codecs top-x", "unknown codec 'top-x'"),
        ("--codecs ,", "not a comma-separated list"),
        ("--size 0", "at least one value"),
        ("--size x", "not a comma-separated list of sizes"),
        ("--size 1e400", "not a comma-separated list of sizes"),
        ("--size 99999999", "not enough memory for tensors of 1e+08 MiB"),
        ("--threads 0", "must be at least 1"),
        ("--repeat no", "invalid"),
    ],
)
def test_an_invalid_option_is_a_one_line_error(options, message, capsys):
    assert main(["bench-compress", *options.split()]) == 2
    out, error = capsys.readouterr()
    assert out == "" and message in error and len(error.splitlines()) == 1
