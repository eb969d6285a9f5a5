"""The study of nightly fits, on a small table."""

import os

import pytest

from bitlane_studies.regime import nightly

pytest.importorskip("sklearn")
pytest.importorskip("threadpoolctl")


def test_all_programs_end_near_the_optimum(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "REPEATS", 1)
    cores = os.sched_getaffinity(0)
    try:
        nightly.main(["--sizes", "3000x4", "--core", str(min(cores))])
    finally:
        os.sched_setaffinity(0, cores)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == 3
    assert all(float(line.split()[-1]) < 2 * nightly.EXCESS for line in lines)
