"""Import of optional libraries where they are used."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bitlane.errors import BitlaneError

_PACKAGES = {"sklearn": "scikit-learn", "skimage": "scikit-image"}  # where the package has another name than the module


def is_installed(module: str) -> bool:
    """Whether a library can be imported, as far as that can be known without importing it."""
    if module in sys.modules:
        return sys.modules[module] is not None
    return find_spec(module) is not None


def require_extra(module: str, purpose: str, install: str = "'bitlane[cli]'") -> Any:
    """Import a library that is optional.

    Parameters
    ----------
    module : str
        Name of the module.
    purpose : str
        What needs it: the subject of the error message.
    install : str, default="'bitlane[cli]'"
        Argument of ``pip install`` in the error message: the extra that includes the library, or the library.

    Returns
    -------
    module

    Raises
    ------
    BitlaneError
        The library is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = _PACKAGES.get(module.partition(".")[0], module.partition(".")[0])
        raise BitlaneError(f"{purpose} needs {package}: pip install {install}") from error
