"""The parser of the command line: the commands of this package, and those of plug-ins."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

from bitlane.errors import DataError
from bitlane.support.text import near_names

from .command import VERBOSE, Command, add_commands
from .summaries import SUMMARIES

GROUP = "bitlane.commands"  # entry points: a name, and a Command
MODULES = {"sparse": "sparse.command"}  # in this package; that of another command has its name
OF_STUDIES = ("reproduce", "bench-compress")  # entry points of another distribution, in the checkout's studies/


class _Parser(argparse.ArgumentParser):
    """Its errors are DataErrors, one line each, with names that are near a wrong one."""

    def error(self, message: str) -> NoReturn:
        raise DataError(f"{message} (see {self.prog} --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, of which none may be left."""
        arguments, left = self.parse_known_args(args, namespace)
        if left:
            parser = named_parser(self, args)
            names = [
                name for action in parser._actions if action.help != argparse.SUPPRESS for name in action.option_strings
            ]
            near = near_names(left[0].partition("=")[0], names, least=0.7) if left[0].startswith("-") else ""
            parser.error(f"unrecognized arguments: {' '.join(left)}{near}")
        return arguments

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices]
            near = near_names(str(value), names) or f"; choose from {', '.join(names)}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{near}")


def named_parser(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that arguments name, however far below."""
    for word in argv:
        below = next((each for each in parser._actions if isinstance(each, argparse._SubParsersAction)), None)
        if below is not None and word in below.choices:
            parser = below.choices[word]
    return parser


def all_commands() -> list[Command]:
    """Return the commands of this package, then those of entry points in alphabetical order."""
    return [_load(name) for name in (*SUMMARIES, *_plugins())]


def make_parser(argv: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line. What it parses has the `Command` as `command`.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments. Of the command that they name the parser has all arguments; of the others, some of which take
        seconds to import, it has only names and summaries. None: all arguments of all commands.
    """
    parser = _Parser(prog="bitlane", description="Train linear models on samples stored with few bits.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version of bitlane and exit")
    parser.add_argument("-v", "--verbose", action="store_true", help=VERBOSE)
    if argv is None:
        add_commands(parser, all_commands())
        return parser
    named = next((each for each in argv if not each.startswith("-")), "")
    plugins = _plugins()
    if named in OF_STUDIES and named not in plugins:
        raise DataError(f"`bitlane {named}` needs bitlane-studies: pip install ./studies in a checkout of bitlane")
    summaries = {**SUMMARIES, **{name: f"from {point.value.partition('.')[0]}" for name, point in plugins.items()}}
    add_commands(parser, [_load(name) if name == named else _stub(name, text) for name, text in summaries.items()])
    return parser


class _Version(argparse.Action):
    """Prints the version, which takes a while to find."""

    def __call__(self, *_: object) -> NoReturn:
        from bitlane import __version__

        print(f"bitlane {__version__}")
        raise SystemExit(0)


def _plugins() -> dict[str, EntryPoint]:
    """Return the commands of other distributions by name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def _stub(name: str, summary: str) -> Command:
    """Return a command of which only name and summary are needed."""
    return Command(name, summary, lambda _: None, lambda _: None)


def _load(name: str) -> Command:
    if name in SUMMARIES:
        module = MODULES.get(name, name.replace("-", "_"))
        command: Command = import_module(f".{module}", __package__).COMMAND
    else:
        command = _plugins()[name].load()
    return command
