"""The check that no gradient gets lost: what came in is what was sent and what is kept, for each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.servers.row_codecs import UNIT, Part
from bitlane.sparse.workers.residuals import ResidualTable
from bitlane.sparse.workers.rounding import EXACT


class Ledger:
    """Sums of integers by key, in a dictionary: what came in minus what was sent.

    It grows with the keys that are kept, and takes more time than the work that it checks: for tests and debugging.
    """

    def __init__(self) -> None:
        self._open: dict[int, NDArray[np.int64]] = {}

    def receive(self, keys: NDArray[np.uint64], units: NDArray[np.int64]) -> None:
        """Count what comes in, int64 [n, values]. Sums above 2^24 in size are rounded to float32."""
        for key, row in zip(keys.tolist(), units, strict=True):
            total = row + self._open.get(key, np.int64(0))
            self._open[key] = np.where(np.abs(total) > EXACT, total.astype(np.float32).astype(np.int64), total)

    def send(self, parts: Sequence[Part]) -> None:
        """Count what a server applies."""
        for part in parts:
            for key, row in zip(part.keys.tolist(), part.gradients().astype(np.float64) / UNIT, strict=True):
                self._open[key] = self._open[key] - row.astype(np.int64)

    def check(self, table: ResidualTable) -> None:
        """Compare with what is kept.

        Raises
        ------
        BitlaneError
            A key whose sums differ.
        """
        self._open = {key: row for key, row in self._open.items() if row.any()}
        kept: dict[int, Any] = dict(zip(table.keys[: table.count].tolist(), table.rows[: table.count], strict=True))
        for key in self._open.keys() | kept.keys():
            wanted, found = self._open.get(key, np.zeros(1)), kept.get(key, np.zeros(1))
            if not np.array_equal(wanted, found):
                raise BitlaneError(
                    f"a push lost gradients of key {key}: received minus sent is {wanted.tolist()}, kept is "
                    f"{found.tolist()}; please report this"
                )
