"""Names of settings for legends and tables."""

from __future__ import annotations


def curve_label(sampling: str, bits: int, staleness: int = 0) -> str:
    """Return the name of a training for legends and tables."""
    label = "float64" if sampling == "float64" else f"{sampling}, {bits} bits"
    return f"{label}, stale" if staleness else label
