"""How long this machine takes for Gram matrices, from floats and from codes: measured once, and kept in the cache."""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from bitlane.encoded.table import EncodedTable
from bitlane.support.atomic import atomic_write
from bitlane.support.c_library import cpu_flags
from bitlane.support.cache import cache_folder
from bitlane.support.processors import processors

from .moments import coded_moments, float_moments

FORMAT = 2
TINY, ROWS = 256, 16_384  # rows of the tables that are measured
FEW, MANY = 32, 256  # their columns
REPEATS = 3
MEASURED = 1 << 22  # values of a table from which on measuring is worth its time

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rate:
    """Seconds of processors for the Gram matrix of a table.

    Attributes
    ----------
    start, value, product : float
        Once, for each value, and for each product of two values of a row.
    """

    start: float
    value: float
    product: float

    def seconds(self, rows: int, columns: int) -> float:
        """Return the seconds that a table takes."""
        return self.start + rows * columns * (self.value + columns * self.product)


def codes_are_quicker(rows: int, columns: int) -> bool:
    """Return whether encoding a table and its exact Gram matrix are predicted to be quicker than BLAS on floats."""
    if rows * columns < MEASURED:
        return False
    floats, codes = gram_rates()
    return codes.seconds(rows, columns) < floats.seconds(rows, columns)


@cache
def gram_rates() -> tuple[Rate, Rate]:
    """Return the rates of this machine for floats and for codes, from the cache folder if it has them."""
    path = cache_folder() / "rates.json"
    machine = f"{FORMAT} {platform.machine()} {' '.join(cpu_flags())} {processors()} numpy {np.__version__}"
    try:
        kept = json.loads(path.read_text())
        if kept["machine"] == machine:
            return Rate(**kept["floats"]), Rate(**kept["codes"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    floats, codes = _rate(_float_gram), _rate(_code_gram)
    _logger.info("Gram matrices on this machine: floats %s, codes %s", floats, codes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"machine": machine, "floats": asdict(floats), "codes": asdict(codes)}))
    except OSError as error:
        _logger.info("rates of this machine are not kept: %s", error)
    return floats, codes


def _rate(work: Callable[[np.ndarray], None]) -> Rate:
    start = _seconds(work, TINY, FEW)
    few, many = (max(0.0, _seconds(work, ROWS, columns) - start) / (ROWS * columns) for columns in (FEW, MANY))
    product = max(0.0, (many - few) / (MANY - FEW))
    return Rate(start, max(few - FEW * product, 0.0), product)


def _seconds(work: Callable[[np.ndarray], None], rows: int, columns: int) -> float:
    """Return the least time that processors spend on a table of floats, in some runs: other programs do not count."""
    table = np.random.default_rng(0).random((rows, columns), dtype=np.float32)
    least = np.inf
    for _ in range(REPEATS):
        begun = time.process_time()
        work(table)
        least = min(least, time.process_time() - begun)
    return least


def _float_gram(table: np.ndarray) -> None:
    float_moments(table, table[:, 0], dtype=np.float32)


def _code_gram(table: np.ndarray) -> None:
    coded_moments(EncodedTable.of(table).coded, table[:, 0])
