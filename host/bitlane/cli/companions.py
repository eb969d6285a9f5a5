"""Options that need another one: alone they would have no effect, and so they are refused."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from bitlane.errors import DataError
from bitlane.support.text import option_of


@dataclass(frozen=True)
class Companion:
    """What options need.

    Attributes
    ----------
    options : tuple of str
        Names of the arguments.
    needed : str
        For the message: "--penalty l1 or l2".
    is_there : callable
        Whether it is there, by the parsed arguments with their defaults.
    """

    options: tuple[str, ...]
    needed: str
    is_there: Callable[[argparse.Namespace], bool]


def given_options(arguments: argparse.Namespace) -> set[str]:
    """Return the arguments that somebody gave, of a parser whose defaults are left out, or are None or empty."""
    return {name for name, value in vars(arguments).items() if value is not None and value is not False and value != []}


def check_companions(arguments: argparse.Namespace, given: Collection[str], companions: Sequence[Companion]) -> None:
    """Refuse options without what they need.

    Parameters
    ----------
    arguments : Namespace
        With its defaults.
    given : collection of str
        The arguments that somebody gave: `given_options`.
    companions : sequence of Companion

    Raises
    ------
    DataError
        An option would have no effect.
    """
    for companion in companions:
        for name in companion.options:
            if name in given and not companion.is_there(arguments):
                raise DataError(f"{option_of(name)} needs {companion.needed}")
