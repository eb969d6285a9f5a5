"""Settings are checked where they are made."""

from __future__ import annotations

from typing import Any

import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import Schema


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "ranking"}, r"task='ranking' is unknown"),
        ({"batch_rows": 0}, r"batch_rows=0 must be an integer of at least 1"),
        ({"batch_rows": 1.5}, r"batch_rows=1.5 must be an integer of at least 1"),
        ({"shuffle_rows": -1}, r"shuffle_rows=-1 must be an integer of at least 0"),
        ({"threads": 0}, r"threads=0 must be an integer of at least 1"),
        ({"seed": -1}, r"seed=-1 must be an integer of at least 0"),
        ({"block_bytes": 0}, r"block_bytes=0 must be an integer of at least 1"),
        ({"max_fields": 0}, r"max_fields=0 must be from 1 to 65536"),
        ({"max_fields": 65537}, r"max_fields=65537 must be from 1 to 65536"),
        ({"split": "dev"}, r"split='dev' is unknown; choose 'train' or 'test'"),
        ({"schema": Schema("click"), "label": "buy"}, r"differ from those of the schema: set them there"),
        ({"schema": Schema("click"), "time": "at"}, r"differ from those of the schema: set them there"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ReadOptions(**settings)


def test_a_label_may_repeat_that_of_the_schema() -> None:
    assert ReadOptions(schema=Schema("click", time="at"), label="click", time="at").label == "click"
