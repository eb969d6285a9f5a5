"""The parser of the command line: the commands of this package, and those of plug-ins."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import NoReturn

from bitlane import __version__
from bitlane.errors import DataError

from .command import VERBOSE, Command, add_commands

GROUP = "bitlane.commands"  # entry points: a name, and a Command
BUILT_IN = {  # name: module in this package. Some take seconds to import, so only the one that runs is imported
    "train": "train",
    "compare": "compare",
    "levels": "levels",
    "train-ddp": "train_ddp",
    "advise": "advise",
    "sparse": "sparse.command",
    "plot": "plot",
    "devices": "devices",
    "datasets": "datasets",
    "selftest": "selftest",
}
OF_STUDIES = ("reproduce", "bench-compress")  # entry points of another distribution, in the checkout's studies/


class _Parser(argparse.ArgumentParser):
    """Its errors are DataErrors, one line each."""

    def error(self, message: str) -> NoReturn:
        raise DataError(f"{message} (see {self.prog} --help)")


def all_commands() -> list[Command]:
    """Return the commands of this package, then those of entry points in alphabetical order."""
    plugins: list[Command] = [point.load() for point in entry_points(group=GROUP)]
    return [*map(_load, BUILT_IN), *sorted(plugins, key=lambda command: command.name)]


def make_parser(argv: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of the command line. What it parses has the `Command` as `command`.

    It knows all commands; if `argv` begins with the name of one of this package, that one alone.
    """
    parser = _Parser(prog="bitlane", description="Train linear models on samples stored with few bits.")
    parser.add_argument("--version", action="version", version=f"bitlane {__version__}")
    parser.add_argument("-v", "--verbose", action="store_true", help=VERBOSE)
    named = next((each for each in argv if not each.startswith("-")), "")
    commands = [_load(named)] if named in BUILT_IN else all_commands()
    if named in OF_STUDIES and named not in {each.name for each in commands}:
        raise DataError(f"`bitlane {named}` needs bitlane-studies: pip install ./studies in a checkout of bitlane")
    add_commands(parser, commands)
    return parser


def _load(name: str) -> Command:
    command: Command = import_module(f".{BUILT_IN[name]}", __package__).COMMAND
    return command
