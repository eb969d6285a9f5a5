"""The study of publishing, with few rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane_studies.sparse import publishing as study

pytest.importorskip("pyarrow")


def test_the_command_prints_its_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    study.main(["--rows", "3000", "--share", "0.1", "--deltas", "2", "--folder", str(tmp_path)])
    header, _, base, delta = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "rows"
    assert base.split()[:2] == ["base", "3,000"] and delta.split()[:2] == ["delta", "300"]
    assert all(float(cell) > 0 for line in (base, delta) for cell in line.split()[2:4])
    assert list(tmp_path.iterdir()) == []
