"""The layouts of models: of a module, of known models by name, and of a file of shapes.

A layout has the last registered parameter first, as the gradient vector of `DDPCompression`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from bitlane.errors import DataError

from ..compressor import Layout, layout_of_shapes
from ..local.fragments import trained_parameters
from ..training.experiment import layout_of
from ..training.user_networks import load_module

Shape = tuple[int, ...]


def module_layout(module: nn.Module) -> Layout:
    """Return the layout of the parameters of a module that have gradients; errors as `trained_parameters`."""
    return layout_of(list(trained_parameters(module).values()))


def known_layout(name: str) -> Layout:
    """Return the layout of a model of `SHAPES`; raise DataError for another name."""
    if name not in SHAPES:
        raise DataError(
            f"unknown model {name!r}: choose one of {', '.join(SHAPES)}, or give a file of shapes, "
            "package.module:FUNCTION or FILE.py:FUNCTION"
        )
    return layout_of_shapes(reversed(SHAPES[name]))


def file_layout(path: Path) -> Layout:
    """Return the layout of a text file with one shape a line, in the order of registration.

    Numbers are separated by blanks or x: `768 2304` or `64x3x7x7`. Empty lines, and all behind #, count for nothing.

    Raises
    ------
    DataError
        If the file cannot be read or has no shape. If a line is not a shape, the message names it.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the shapes in {path}: {error}") from None
    shapes: list[Shape] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].replace("x", " ").split()
        if not all(word.isascii() and word.isdigit() and int(word) for word in words):
            raise DataError(f"{path}, line {number}: {line.strip()!r} is not a shape, such as 768 2304 or 64x3x7x7")
        if words:
            shapes.append(tuple(map(int, words)))
    if not shapes:
        raise DataError(f"{path} has no shapes: write one a line, such as 768 2304")
    return layout_of_shapes(reversed(shapes))


def call_factory(text: str) -> Any:
    """Return what a function returns that is named as `package.module:FUNCTION` or `FILE.py:FUNCTION`.

    Raises
    ------
    DataError
        If there is no such module or function, or if one of them raises an error.
    """
    place, _, name = text.rpartition(":")
    try:
        module = load_module(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except DataError:
        raise
    except Exception as error:  # a user's module may raise anything
        raise DataError(f"cannot import {place!r} for {text}: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise DataError(f"{place} has no function {name or '(no name)'}")
    try:
        return function()
    except Exception as error:  # so may a user's function
        raise DataError(f"{text} raised {type(error).__name__}: {error}") from error


def _gpt2(width: int, blocks: int) -> Sequence[Shape]:
    """Radford et al. (2019): 50,257 tokens, 1,024 places; the embedding of tokens is tied with the last layer."""
    d = width
    norm = [(d,), (d,)]
    block = [*norm, (3 * d, d), (3 * d,), (d, d), (d,), *norm, (4 * d, d), (4 * d,), (d, 4 * d), (d,)]
    return [(50257, d), (1024, d), *block * blocks, *norm]


def _resnet(blocks: Sequence[int], block: Callable[[int, int], list[Shape]], expansion: int) -> Sequence[Shape]:
    """He et al. (2016), table 1: four stages, 1,000 classes, batch normalization, projections where sizes change."""
    shapes, inside = _convolution(3, 64, 7), 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for number in range(count):
            shapes += block(inside, width)
            if not number and (inside != width * expansion or stage):
                shapes += _convolution(inside, width * expansion, 1)
            inside = width * expansion
    return [*shapes, (1000, inside), (1000,)]


def _convolution(inside: int, outside: int, side: int) -> list[Shape]:
    """Return the shapes of a convolution without bias, and of its batch normalization."""
    return [(outside, inside, side, side), (outside,), (outside,)]


def _basic(inside: int, width: int) -> list[Shape]:
    return _convolution(inside, width, 3) + _convolution(width, width, 3)


def _bottleneck(inside: int, width: int) -> list[Shape]:
    return _convolution(inside, width, 1) + _convolution(width, width, 3) + _convolution(width, 4 * width, 1)


def _lstm(words: int, width: int, layers: int) -> Sequence[Shape]:
    """Zaremba et al. (2014): embedding, layers with both biases of torch, softmax over the words."""
    layer = [(4 * width, width), (4 * width, width), (4 * width,), (4 * width,)]
    return [(words, width), *layer * layers, (words, width), (words,)]


SHAPES: dict[str, Sequence[Shape]] = {
    "gpt2": _gpt2(768, 12),
    "gpt2-medium": _gpt2(1024, 24),
    "resnet18": _resnet((2, 2, 2, 2), _basic, 1),
    "resnet50": _resnet((3, 4, 6, 3), _bottleneck, 4),
    "lstm": _lstm(10000, 650, 2),  # "medium"
}
