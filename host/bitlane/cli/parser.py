"""The parser of the command line: the commands of this package, and those of plug-ins."""

from __future__ import annotations

import argparse
from importlib.metadata import entry_points
from typing import NoReturn

from bitlane import __version__
from bitlane.errors import DataError

from . import advise, compare, datasets, devices, levels, plot, selftest, train, train_ddp
from .command import VERBOSE, Command, add_commands
from .sparse import command as sparse

GROUP = "bitlane.commands"  # entry points: a name, and a Command
BUILT_IN = (
    train.COMMAND,
    compare.COMMAND,
    levels.COMMAND,
    train_ddp.COMMAND,
    advise.COMMAND,
    sparse.COMMAND,
    plot.COMMAND,
    devices.COMMAND,
    datasets.COMMAND,
    selftest.COMMAND,
)


class _Parser(argparse.ArgumentParser):
    """Its errors are DataErrors, one line each."""

    def error(self, message: str) -> NoReturn:
        raise DataError(f"{message} (see {self.prog} --help)")


def all_commands() -> list[Command]:
    """Return the commands of this package, then those of entry points in alphabetical order."""
    plugins: list[Command] = [point.load() for point in entry_points(group=GROUP)]
    return [*BUILT_IN, *sorted(plugins, key=lambda command: command.name)]


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line. What it parses has the `Command` as `command`."""
    parser = _Parser(prog="bitlane", description="Train linear models on samples stored with few bits.")
    parser.add_argument("--version", action="version", version=f"bitlane {__version__}")
    parser.add_argument("-v", "--verbose", action="store_true", help=VERBOSE)
    add_commands(parser, all_commands())
    return parser
