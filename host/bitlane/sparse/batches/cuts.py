"""Batches of a source, cut and joined so that they end at the same rows in every run."""

from __future__ import annotations

from collections.abc import Iterator

from bitlane.sparse.batches.batch import Batch


def cut(batches: Iterator[Batch], sizes: tuple[int, ...], start: int = 0) -> Iterator[Batch]:
    """Yield the rows of `batches` in pieces that end at the multiples of each size, and at the last row.

    The pieces depend on the rows alone, not on how a source batches them: a training that resumes at the end of a
    piece learns the same pieces as one that did not stop.

    Parameters
    ----------
    batches : iterator of Batch
    sizes : tuple of int
        Rows, at least 1 each.
    start : int, default=0
        Rows before the first batch.
    """
    chunks: list[Batch] = []
    row = start
    end = _next_end(row, sizes)
    for batch in batches:
        first = 0
        while first < batch.rows:
            last = min(batch.rows, first + end - row)
            chunks.append(batch if last - first == batch.rows else batch.slice(first, last))
            row, first = row + last - first, last
            if row == end:
                yield Batch.concatenate(chunks)
                chunks, end = [], _next_end(row, sizes)
    if chunks:
        yield Batch.concatenate(chunks)


def _next_end(row: int, sizes: tuple[int, ...]) -> int:
    return min((row // size + 1) * size for size in sizes)
