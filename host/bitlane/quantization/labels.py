"""Names of settings, for legends and tables."""

from __future__ import annotations


def curve_label(sampling: str, bits: int, staleness: int = 0) -> str:
    """What a training is called in legends and tables."""
    label = "float64" if sampling == "float64" else f"{sampling}, {bits} bits"
    return f"{label}, stale" if staleness else label
