"""Names of files: one that several rooms read or write, and those beside a wrong one."""

from __future__ import annotations

from pathlib import Path

MODEL_NAME = "model.npz"  # a trained model, in a run folder


def names_beside(path: Path) -> list[str]:
    """Return the names in the folder of a path; none if it cannot be listed."""
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []
