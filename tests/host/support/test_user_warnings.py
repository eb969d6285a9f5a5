"""Warnings name the line of the user's program, once."""

from __future__ import annotations

import warnings

import numpy as np

from bitlane import SGDRegressor


def test_warnings_name_the_users_line_once() -> None:
    """The warnings come from deep inside the package and still name the line of the user's call."""
    X = np.column_stack([np.arange(20.0), np.ones(20)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            SGDRegressor(device="emulator", batch_size=30, learning_rate=0.01).fit(X, np.arange(20.0))
    assert {warning.filename for warning in caught} == {__file__}
    messages = [str(warning.message) for warning in caught]
    assert sorted(messages) == [
        "1 column(s) of X are constant: their weights are 0",
        "batch_size=30 exceeds the 20 rows: one batch takes them all",
    ]
