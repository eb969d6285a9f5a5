"""The study of ways to a weight server, with few keys."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow.flight")

from bitlane_studies.sparse import lookup_transports as study


def expect_a_table(output: str, ways: list[str]) -> None:
    lines = output.splitlines()
    assert lines[0].split() == ["500", "keys", "requests", "p50,", "ms", "p99,", "ms", "p99.9,", "ms"]
    assert len(lines) == 2 + len(ways)
    for line, way in zip(lines[2:], ways, strict=True):
        assert line.startswith(way)
        if "not installed" not in line:
            requests, *times = (float(each) for each in line[len(way) :].split())
            assert requests == 20 and times == sorted(times) and times[0] > 0


def test_arrow_flight_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    study.main(["--keys", "3000", "--asked", "500", "--requests", "20", "--ways", "Arrow Flight"])
    expect_a_table(capsys.readouterr().out, ["Arrow Flight"])


@pytest.mark.slow
def test_so_have_ray_and_ray_serve(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray")
    study.main(["--keys", "3000", "--asked", "500", "--requests", "20", "--ways", "Ray actor", "Ray Serve"])
    expect_a_table(capsys.readouterr().out, ["Ray actor", "Ray Serve"])
