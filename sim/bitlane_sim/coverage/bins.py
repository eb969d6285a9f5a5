"""Declared bins, and how often each was hit."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product


class Bins:
    """Points, each with bins by name. A bin that nobody declared cannot be hit: KeyError."""

    def __init__(self) -> None:
        self._hits: dict[str, dict[str, int]] = {}

    def declare(self, point: str, bins: Iterable[object]) -> None:
        """A point with these bins, none of them hit. ValueError where it is there already, or has none."""
        hits = {str(name): 0 for name in bins}
        if point in self._hits or not hits:
            raise ValueError(f"{point}: declared twice, or without bins")
        self._hits[point] = hits

    def cross(self, point: str, *axes: Iterable[object]) -> None:
        """A point whose bins are all combinations."""
        self.declare(point, (crossed(*names) for names in product(*axes)))

    def hit(self, point: str, *names: object, times: int = 1) -> None:
        """One more run, or whatever the point counts, in the bin of this name, or of these names crossed."""
        self._hits[point][crossed(*names)] += times

    def only(self, *points: str) -> Bins:
        """These points alone, with the hits that they have."""
        some = Bins()
        some._hits = {point: self._hits[point] for point in points}
        return some

    def missed(self) -> list[str]:
        """Every bin that is empty, as `point: bin`."""
        return [f"{point}: {name}" for point, hits in self._hits.items() for name, count in hits.items() if not count]

    def table(self) -> list[tuple[str, int, int]]:
        """For each point: its name, bins that were hit, bins."""
        return [(point, sum(map(bool, hits.values())), len(hits)) for point, hits in self._hits.items()]


def crossed(*names: object) -> str:
    """The name of a bin of a cross."""
    return " x ".join(map(str, names))
