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
from .solution import Floats

FORMAT = 4
TINY, ROWS = 64, 8_192  # rows of the tables that are measured
FEW, MANY = 128, 512  # their columns: in narrower tables, costs of rows hide those of products
ROUNDS = 5  # of measurements; the least of each counts, so that other programs count little
ATTEMPTS = 3  # while a rate is implausible: a product takes time
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
    floats, codes = _measured_rates()
    _logger.info("Gram matrices on this machine: floats %s, codes %s", floats, codes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps({"machine": machine, "floats": asdict(floats), "codes": asdict(codes)}))
    except OSError as error:
        _logger.info("rates of this machine are not kept: %s", error)
    return floats, codes


def _measured_rates() -> tuple[Rate, Rate]:
    """Measure the rates in rounds, so that what other programs do meets all of them alike."""
    sizes = ((TINY, FEW), (ROWS, FEW), (ROWS, MANY))
    tables = [np.random.default_rng(0).random(size, dtype=np.float32) for size in sizes]
    least = np.full((2, len(sizes)), np.inf)
    for _ in range(ATTEMPTS):
        for _ in range(ROUNDS):
            for kind, size in np.ndindex(*least.shape):
                least[kind, size] = min(least[kind, size], _seconds((_float_gram, _code_gram)[kind], tables[size]))
        rates = _rate(least[0]), _rate(least[1])
        if all(rate.product for rate in rates):
            break
    return rates


def _rate(seconds: Floats) -> Rate:
    start = float(seconds[0])
    few, many = (max(0.0, float(each) - start) / (ROWS * n) for each, n in zip(seconds[1:], (FEW, MANY), strict=True))
    product = max(0.0, (many - few) / (MANY - FEW))
    return Rate(start, max(few - FEW * product, 0.0), product)


def _seconds(work: Callable[[np.ndarray], None], table: np.ndarray) -> float:
    """Return the time that processors spend on a table of floats."""
    begun = time.process_time()
    work(table)
    return time.process_time() - begun


def _float_gram(table: np.ndarray) -> None:
    float_moments(table, table[:, 0], dtype=np.float32)


def _code_gram(table: np.ndarray) -> None:
    coded_moments(EncodedTable.of(table).coded, table[:, 0])
