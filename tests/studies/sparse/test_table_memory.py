"""The study of the table's memory and speed, on few rows."""

from __future__ import annotations

import mmap
import re

import numpy as np
import pytest

from bitlane.sparse.tables.table import Table
from bitlane_studies.sparse import table_memory as study

pytest.importorskip("numba")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(study, "LOOKUPS", 500)
    monkeypatch.setattr(study, "REPEATS", 5)
    monkeypatch.setattr(study, "DICT_ROWS", 1000)
    monkeypatch.setattr(study, "RSS_ROWS", 15_000)


def test_samples_go_from_a_thousand_rows_to_all():
    table = Table(1)
    samples, seconds = study.grow(table, 20_000)
    rows = [sample.rows for sample in samples]
    assert len(table) == rows[-1] == 20_000 and rows[0] in range(1000, 1016) and seconds > 0
    assert len(rows) > 200 and max(np.divide(rows[1:], rows[:-1])) < 1.02
    assert all(1.05 < sample.counted <= 1.2 for sample in samples)
    assert samples[-1].counted == table.nbytes / (20_000 * 12)
    shown = study.thinned(samples)
    assert 100 < len(shown) <= study.PLOTTED and shown[0] == samples[0] and shown[-1] == samples[-1]


def test_the_peak_is_what_the_process_reached():
    """33.6 MB come and go; the next peak is without them."""
    study.take_peak()
    before = study.resident_bytes()
    with mmap.mmap(-1, 32 << 20) as memory:  # numpy might take memory that the process still has
        for page in range(0, 32 << 20, mmap.PAGESIZE):
            memory[page] = 1
    peak = study.take_peak() - before
    if np.isnan(peak):
        pytest.skip("this system does not tell the peak")
    assert 30e6 < peak < 40e6 and study.take_peak() - before < 16e6


def test_lookups_are_of_keys_that_the_table_has(seed):
    table = Table(2)
    study.grow(table, 1000)
    assert all((study.look_up(table, method, seed) > 0).all() for method in ("find", "gather", "absent"))
    assert (table.find(study.keys_of(np.arange(1000, dtype=np.uint64))) >= 0).all()


def test_a_dict_takes_more_than_its_numbers():
    assert 60 < study.dict_bytes(1000) < 200


def test_the_command_prints_its_tables(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    study.main(["--rows", "20000", "--width", "18", "--out", str(tmp_path / "memory.png")])
    text = capsys.readouterr().out
    counted = float(re.search(r"by count, from 1,000 rows, \d+ samples +(\d\.\d+)", text)[1])
    assert 1.05 < counted <= 1.2
    assert re.search(r"gather of 72 bytes +\d+\.\d+ +\d+\.\d+", text) and "dict from int to float, 1,000" in text
    assert (tmp_path / "memory.png").read_bytes()[:4] == b"\x89PNG"


def test_too_few_rows_are_refused(capsys):
    with pytest.raises(SystemExit) as error:
        study.main(["--rows", "10"])
    assert error.value.code == 2 and "--rows must be at least 1000" in capsys.readouterr().err
