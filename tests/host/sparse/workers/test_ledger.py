"""The ledger sees what is lost."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.row_codecs import Part
from bitlane.sparse.workers.ledger import Ledger
from bitlane.sparse.workers.residuals import ResidualTable


def books(sent: int, kept: int) -> tuple[Ledger, ResidualTable]:
    """7 + 8 units came in for a key; part of it was sent and part is kept."""
    ledger, table, key = Ledger(), ResidualTable(4, 1), np.array([9], np.uint64)
    for units in (7, 8):
        ledger.receive(key, np.array([[units]]))
    if sent:
        ledger.send([Part("fixed", key, np.array([[sent]], np.int32))])
    if kept:
        table.insert(key, np.array([[kept]], np.int32))
    return ledger, table


@pytest.mark.parametrize(("sent", "kept"), [(15, 0), (0, 15), (5, 10), (-5, 20)])
def test_right_sums_pass(sent: int, kept: int) -> None:
    ledger, table = books(sent, kept)
    ledger.check(table)


@pytest.mark.parametrize(("sent", "kept"), [(14, 0), (0, 16), (15, 15), (0, 0)])
def test_wrong_sums_are_found(sent: int, kept: int) -> None:
    ledger, table = books(sent, kept)
    with pytest.raises(BitlaneError, match="lost gradients of key 9"):
        ledger.check(table)
