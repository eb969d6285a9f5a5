"""Hash of the data of a training."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bitlane.encoded.table import EncodedTable
from bitlane.quantization.scaling import Matrix
from bitlane.support.processors import processors

HASHED = 1 << 20  # bytes of a piece
DIGITS = 32  # hexadecimal digits that are stored


def fingerprint(X: Matrix | EncodedTable, y: Matrix, threads: int | None = None) -> str:
    """Return a hash of X [rows, n] and y [rows, targets], in hexadecimal digits.

    It depends on types and shapes, not on the order in memory. It is the SHA-256 of the hashes of pieces of rows.

    Parameters
    ----------
    X, y : arrays
        X may be an encoded table, whose hash is that of its codes.
    threads : int, optional
        Threads that hash pieces; as many as the machine has by default.
    """
    total = hashlib.sha256()
    with ThreadPoolExecutor(threads or processors()) as pool:
        for table in (X, y):
            if isinstance(table, EncodedTable):
                total.update(table.fingerprint.encode())
                continue
            total.update(f"{table.dtype.str} {table.shape} ".encode())
            step = max(1, HASHED // max(1, table[:1].nbytes))
            for digest in pool.map(_digest, (table[start : start + step] for start in range(0, len(table), step))):
                total.update(digest)
    return total.hexdigest()[:DIGITS]


def _digest(rows: Matrix) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(rows)).digest()  # type: ignore[arg-type]
