"""The options of a build on the command line: one for each field of `AcceleratorConfig`."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import NoReturn

from bitlane.contract.config import AcceleratorConfig
from bitlane.errors import DataError

MEANINGS = {
    "width": "bits of a beat, on all memory ports together: 64, 128 and so on to 4096",
    "outputs": "models trained together, 1 to 15",
    "max_features": "features that a model memory holds: a power of two of at least 64",
    "row_buffer_beats": "beats of samples stored between the two uses of a row",
    "fifo_beats": "beats prefetched for each stream",
    "address_bits": "bits of an address on the memory port, 32 to 64",
    "level_slots": "levels in each table lane, a power of two; 0 for digit lanes",
    "random_rounding": "with random rounding of models and gradients",
    "encoder": "draw sets that an encoder writes at a time, 1 to 8; 0 for no encoder",
    "ports": "memory ports, each with a memory of its own and as many bits of a beat: 1, 2, 4 or 8",
    "shards": "data paths side by side, each with a part of the features: 1, 2, 4 or 8",
}


def add_build_options(parser: argparse.ArgumentParser, defaults: AcceleratorConfig | None = None) -> None:
    """Add an option for each field of a build, with these defaults: those of `AcceleratorConfig` when None."""
    group = parser.add_argument_group("build")
    for field in fields(AcceleratorConfig):
        option, default = f"--{field.name.replace('_', '-')}", getattr(defaults or AcceleratorConfig(), field.name)
        if isinstance(default, bool):
            group.add_argument(option, action="store_true", default=default, help=MEANINGS[field.name])
        else:
            text = f"{MEANINGS[field.name]} (default: {default})"
            group.add_argument(option, type=int, default=default, metavar="N", help=text)


def build_of(arguments: argparse.Namespace) -> AcceleratorConfig:
    """Return the build of the options; DataError if no hardware has such options."""
    return AcceleratorConfig(**{field.name: getattr(arguments, field.name) for field in fields(AcceleratorConfig)})


def fail(parser: argparse.ArgumentParser, error: DataError | ValueError | OSError) -> NoReturn:
    """End the program with status 2 and one line that says what was wrong."""
    parser.exit(2, f"{parser.prog}: error: {error}\n")
