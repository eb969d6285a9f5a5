"""A command of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


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
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    description: str = ""
    suppress_defaults: bool = False
