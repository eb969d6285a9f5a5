"""Checks of versions that users write: entry points, and functions by name."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import entry_points

from bitlane.errors import DataError
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.scoring.model import FrozenModel

GROUP = "bitlane.validators"

Hook = Callable[[FrozenModel, "FrozenModel | None", Manifest], "Iterable[str] | str | None"]


def find_hooks(names: Sequence[str]) -> dict[str, Hook]:
    """Return the hooks of the entry points ``bitlane.validators``, and those that are named, by name.

    Parameters
    ----------
    names : sequence of str
        Each ``package.module:function``.

    Raises
    ------
    DataError
        One cannot be imported, or is no function.
    """
    loaders: dict[str, Callable[[], Hook]] = {point.name: point.load for point in entry_points(group=GROUP)}
    loaders.update({name: partial(_by_name, name) for name in names})
    hooks = {}
    for name, load in loaders.items():
        try:
            hooks[name] = load()
        except DataError:
            raise
        except Exception as error:  # whatever the user's module does when it is imported
            raise DataError(f"hook {name} cannot be imported: {type(error).__name__}: {error}") from error
        if not callable(hooks[name]):
            raise DataError(f"hook {name} is not a function")
    return hooks


def run_hook(
    hook: Hook, candidate: FrozenModel, current: FrozenModel | None, manifest: Manifest, seconds: float
) -> list[str]:
    """Return the problems that a hook finds in a version; that it fails or is too slow is one, too.

    Parameters
    ----------
    hook : callable
    candidate : FrozenModel
    current : FrozenModel or None
        The version that the label names now.
    manifest : Manifest
        Of the candidate.
    seconds : float
        How long the hook may take. Behind that it is left alone, in a thread that ends with the process.
    """
    results: list[list[str]] = []

    def run() -> None:
        try:
            problems = hook(candidate, current, manifest)
            results.append([problems] if isinstance(problems, str) else [str(each) for each in problems or ()])
        except BaseException as error:  # a hook may do anything, and is no reason to stop
            results.append([f"it raised {type(error).__name__}: {error}"])

    thread = threading.Thread(target=run, name="bitlane-hook", daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else [f"it took longer than {seconds:g} s"]


def _by_name(name: str) -> Hook:
    module, _, function = name.partition(":")
    if not module or not function:
        raise DataError(f"hook {name!r} is not package.module:function")
    hook: Hook = getattr(importlib.import_module(module), function)
    return hook
