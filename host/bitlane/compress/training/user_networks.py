"""Networks of users: a function in a file of theirs, as `FILE.py:FUNCTION`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from bitlane.errors import DataError

Factory = Callable[[int, int], nn.Module]  # takes the channels and the side of an image


def user_network(text: str, classes: int) -> Factory:
    """Return what builds a user's network. The file is run; it can import its neighbours.

    Parameters
    ----------
    text : str
        `FILE.py:FUNCTION`. The function takes the channels and the side of an image, and returns a network that turns
        images, float32 [n, channels, side, side], into scores, float32 [n, classes].
    classes : int
        Number of classes.

    Raises
    ------
    DataError
        If there is no such file or function, if the file raises an error, or later if the network is no such network.
    """
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise DataError(f"network {text!r} is not FILE.py:FUNCTION")
    function = getattr(load_module(Path(file)), name, None)
    if not callable(function):
        raise DataError(f"{file} has no function {name}")
    return partial(_checked, text, function, classes)


def load_module(path: Path) -> ModuleType:
    """Run a user's file, and return it as a module; raise DataError if the file is missing or raises an error."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise DataError(f"there is no network file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything
        raise DataError(f"{path} raised {type(error).__name__}: {error}") from error
    return module


def _checked(text: str, function: Factory, classes: int, channels: int, side: int) -> nn.Module:
    """Return the network; raise DataError if it cannot be built, or has other scores for two images."""
    images = torch.zeros(2, channels, side, side)
    try:
        network = function(channels, side)
        is_module = isinstance(network, nn.Module)
        with torch.no_grad():
            scores = network.eval()(images) if is_module else None
    except Exception as error:  # a user's function may raise anything
        raise DataError(
            f"{text} raised {type(error).__name__} for images [{channels}, {side}, {side}]: {error}"
        ) from error
    if not is_module:
        raise DataError(f"{text} returned {type(network).__name__}; it must return a torch.nn.Module")
    if not isinstance(scores, torch.Tensor) or scores.shape != (2, classes):
        actual = list(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise DataError(
            f"{text}: the network gives {actual} for 2 images; it must give [2, {classes}], a score per class"
        )
    return network.train()
