"""Libraries that only some uses need, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bitlane.errors import BitlaneError

_PACKAGES = {"sklearn": "scikit-learn", "skimage": "scikit-image"}  # where the package has another name than the module


def require_extra(module: str, purpose: str, install: str = "'bitlane[cli]'") -> Any:
    """Import `module`, or raise BitlaneError that says for what `purpose` and how to install it.

    `install` is what pip is to be given: the extra that brings the library, or the library itself.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = _PACKAGES.get(module.partition(".")[0], module.partition(".")[0])
        raise BitlaneError(f"{purpose} needs {package}: pip install {install}") from error
