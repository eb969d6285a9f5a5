"""A command of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass

VERBOSE = "log downloads, levels, launches, windows and checks to stderr"


@dataclass(frozen=True)
class Command:
    """A command, such as `bitlane train`.

    Attributes
    ----------
    name : str
    summary : str
        One line for ``bitlane --help``.
    add_arguments : callable
        Adds the command's arguments to its parser.
    run : callable
        Runs the command with its parsed arguments. It raises BitlaneError or OSError for what the user can mend, and
        SystemExit for another exit status.
    description : str, default=""
        Text of ``bitlane NAME --help``; the summary when empty.
    suppress_defaults : bool, default=False
        Whether arguments that are not given are left out of the namespace.
    nested : bool, default=False
        Whether `add_arguments` adds commands, by `add_commands`, of which one runs instead of this one.
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    description: str = ""
    suppress_defaults: bool = False
    nested: bool = False


def _name_defaults(parser: argparse.ArgumentParser) -> None:
    """Say of each optional argument with a value what its default is, if its help does not."""
    for action in parser._actions:
        is_option = action.option_strings and action.nargs != 0 and not action.required
        if is_option and action.help not in (None, argparse.SUPPRESS) and "default" not in str(action.help):
            action.help = f"{action.help} (default: none)"


def add_commands(parser: argparse.ArgumentParser, commands: Iterable[Command]) -> None:
    """Add commands below a parser. What it parses has the `Command` as `command`.

    Parameters
    ----------
    parser : ArgumentParser
    commands : iterable of Command
    """
    names = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)
    for command in commands:
        below = names.add_parser(
            command.name,
            help=command.summary,
            description=command.description or f"{command.summary[0].upper()}{command.summary[1:]}.",
            argument_default=argparse.SUPPRESS if command.suppress_defaults else None,
        )
        command.add_arguments(below)
        _name_defaults(below)
        below.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=VERBOSE)
        if not command.nested:
            below.set_defaults(command=command)
