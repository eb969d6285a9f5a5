"""A click log in segments: shown first, learned later."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from bitlane.sparse.batches.source import open_source
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane_studies.sparse.click_stream import ClickStream

LOG = ClickLog(ClickLogSettings(fields=3, keys=100))


def test_rows_are_shown_before_they_are_in_the_stream(tmp_path):
    folder = tmp_path / "stream"
    folder.mkdir()
    stream = ClickStream(LOG, folder, 50, 0.01)
    assert stream.shown[0] == 0 and not list(folder.iterdir())
    stream.backlog(3)
    number, shown = stream.shown
    assert number == 3 and [each.name for each in sorted(folder.iterdir())] == [f"{i:08}.parquet" for i in range(3)]
    np.testing.assert_array_equal(shown.labels, LOG.batch(150, 50).labels)
    inside = open_source(str(folder), time="time")
    learned = np.concatenate([batch.keys for batch in inside.batches(0)])
    expected = np.concatenate([stream.batch_of(each).keys for each in range(3)])
    np.testing.assert_array_equal(learned, expected)
    stream.start()
    stream.close()
    assert stream.shown[0] >= 3 and stream.path(stream.shown[0]).parent == tmp_path
