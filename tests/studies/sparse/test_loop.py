"""The loop closed, for some seconds; and its table and picture from known answers."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("starlette")

from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane_studies.sparse import loop
from bitlane_studies.sparse.open_loop import Answered


@pytest.fixture
def measured(tmp_path, seed) -> loop.LoopRecord:
    """2,400 rows in 48 answers: served predictions are the labels in the second half, the frozen ones are wrong."""
    rng = np.random.default_rng(seed)
    publisher = Publisher(ModelRegistry(tmp_path / "ctr"), SparseModel(ModelSpec("lr")))
    versions = [(float(3 * i), publisher.publish()) for i in range(3)]
    found = loop.LoopRecord(versions[0][1], versions, rejected=[4])
    for i in range(48):
        labels = rng.integers(0, 2, 50).astype(np.float32)
        found.answered.append(Answered(i / 4, 0.001 * (i + 1), 1, 0, 0, labels, labels))
        found.frozen.append(1 - labels)
    return found


def test_the_table(measured):
    text = loop.report(measured)
    cells = dict(re.split(r"  +", line.strip(), maxsplit=1) for line in text.splitlines() if "  " in line.strip())
    assert cells["requests answered, refused"] == "48, 0"
    assert cells["milliseconds, p50, p99, p99.9"].startswith("24.5, 47.5")
    assert cells["versions promoted, rejected"] == "3, 1"
    assert cells["AUC of the second half, served"] == "1.0000"
    assert cells["the same, first version"] == "0.0000"


def test_the_picture(measured, tmp_path):
    pytest.importorskip("matplotlib")
    loop.draw(measured, tmp_path / "loop.png")
    assert (tmp_path / "loop.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_loop_runs_from_end_to_end_though_the_first_version_is_rejected(tmp_path, capsys, monkeypatch):
    validate = loop.validation.validate
    rejected = SimpleNamespace(passed=False)
    monkeypatch.setattr(loop.validation, "validate", lambda *given: rejected if given[1] == 1 else validate(*given))
    loop.main(["--seconds", "20", "--publish-every", "4", "--out", str(tmp_path)])
    text = capsys.readouterr().out
    assert int(re.search(r"answered, refused +(\d+)", text)[1]) > 200 and (tmp_path / "loop.png").exists()
    assert int(re.search(r"promoted, rejected +\d+, (\d+)", text)[1]) >= 1
