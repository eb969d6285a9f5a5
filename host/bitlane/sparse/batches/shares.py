"""One part of the pieces of files: what one of several workers reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bitlane.sparse.batches.pieces import Piece


def shared(pieces: Iterator[Piece], share: tuple[int, int], start: int) -> Iterator[Piece]:
    """Yield every n-th piece from piece i on, without the first `start` rows of these.

    Parameters
    ----------
    pieces : iterator of Piece
        All pieces, without a skip.
    share : (int, int)
        i and n.
    start : int
        Text has to be decoded to count its rows.
    """
    part, parts = share
    for number, piece in enumerate(pieces):
        if number % parts != part:
            continue
        if start:
            rows = piece.rows or piece().rows
            if start >= rows:
                start -= rows
                continue
            piece, start = replace(piece, drop=start), 0
        yield piece
