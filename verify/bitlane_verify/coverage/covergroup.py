"""Coverpoints with their bins, and how often each bin was hit."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product


class Covergroup:
    """Coverpoints by name, each with its bins.

    A bin that was not declared cannot be hit: `hit` raises KeyError.
    """

    def __init__(self) -> None:
        self._hits: dict[str, dict[str, int]] = {}

    def declare(self, coverpoint: str, bins: Iterable[object]) -> None:
        """Add a coverpoint with empty bins.

        Raises
        ------
        ValueError
            The coverpoint exists already, or `bins` is empty.
        """
        hits = {str(name): 0 for name in bins}
        if coverpoint in self._hits:
            raise ValueError(f"coverpoint {coverpoint!r} is declared twice")
        if not hits:
            raise ValueError(f"coverpoint {coverpoint!r} has no bins")
        self._hits[coverpoint] = hits

    def cross(self, coverpoint: str, *axes: Iterable[object]) -> None:
        """Add a coverpoint with a bin for each combination of the axes' values."""
        self.declare(coverpoint, (crossed(*names) for names in product(*axes)))

    def hit(self, coverpoint: str, *names: object, times: int = 1) -> None:
        """Count `times` hits of the bin with this name, or of the bin that crosses these names."""
        self._hits[coverpoint][crossed(*names)] += times

    def only(self, *coverpoints: str) -> Covergroup:
        """Return a covergroup of these coverpoints, with their hits."""
        selected = Covergroup()
        selected._hits = {coverpoint: self._hits[coverpoint] for coverpoint in coverpoints}
        return selected

    def missed(self) -> list[str]:
        """Return the empty bins, as `coverpoint: bin`."""
        return [f"{name}: {bin_}" for name, hits in self._hits.items() for bin_, count in hits.items() if not count]

    def table(self) -> list[tuple[str, int, int]]:
        """Return name, number of hit bins and number of bins of each coverpoint."""
        return [(name, sum(map(bool, hits.values())), len(hits)) for name, hits in self._hits.items()]


def crossed(*names: object) -> str:
    """Return the name of the bin that crosses these names."""
    return " x ".join(map(str, names))
