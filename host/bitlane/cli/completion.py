"""`bitlane completion`: a script with which a shell completes commands, options and file names."""

from __future__ import annotations

import argparse
from pathlib import Path

from bitlane.support.optional import require_extra

from .command import Command
from .summaries import SUMMARIES

SHELLS = ("bash", "zsh", "tcsh")
OF_FILES = ("DATA", "MODEL", "RUN_DIR", "REGISTRY")  # metavars of arguments that name files


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def _run(arguments: argparse.Namespace) -> None:
    shtab = require_extra("shtab", "completion")
    from .parser import make_parser

    parser = make_parser()
    for each in parsers_of(parser):
        for action in each._actions:
            if action.type is Path or action.metavar in OF_FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, arguments.shell))


def parsers_of(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Return a parser and those of all commands below it."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [each for below in dict.fromkeys(action.choices.values()) for each in parsers_of(below)]
    return found


COMMAND = Command(
    "completion",
    SUMMARIES["completion"],
    _add_arguments,
    _run,
    description="Print a script with which a shell completes commands, options and file names. For bash: "
    "bitlane completion bash > ~/.local/share/bash-completion/completions/bitlane",
)
