"""The study of planned times, on small tables."""

import os

import pytest

from bitlane_studies.regime import planned

pytest.importorskip("pandas")
pytest.importorskip("threadpoolctl")


def test_each_table_has_a_plan_and_a_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "FITS", planned.FITS[:2])
    cores = os.sched_getaffinity(0)
    try:
        planned.main(["--divide", "500", "--core", str(min(cores))])
    finally:
        os.sched_setaffinity(0, cores)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[4] for line in lines] == ["gram", "newton"]
    assert all(float(line.split()[7]) > 0 for line in lines)
