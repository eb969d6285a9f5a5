"""The version of bitlane."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of the installed distribution; of sources that are only on the path, "0+unknown"."""
    try:
        return metadata.version("bitlane")
    except metadata.PackageNotFoundError:
        return "0+unknown"
