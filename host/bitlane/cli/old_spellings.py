"""Options that have a new name: the old spelling works until a version, and a line says what to write instead."""

from __future__ import annotations

import argparse
from typing import Any

from bitlane.support.user_warnings import warn_user

END = "0.2"  # the version without the old spellings


def add_old_spelling(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, old: str, new: str, **kind: Any
) -> None:
    """Add an old spelling of an option, which the help does not show.

    Parameters
    ----------
    parser : ArgumentParser or group
    old, new : str
        Such as ``--label`` and ``--target``.
    **kind
        Arguments of `add_argument`, as for the new spelling.
    """
    dest = new.removeprefix("--").replace("-", "_")
    parser.add_argument(old, action=_OldSpelling, new=new, **{"dest": dest, "help": argparse.SUPPRESS, **kind})


class _OldSpelling(argparse.Action):
    def __init__(self, *arguments: Any, new: str, **kind: Any):
        super().__init__(*arguments, **{"default": argparse.SUPPRESS, **kind})
        self.new = new

    def __call__(
        self, _: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        warn_user(f"{option_string} is an old spelling, which ends in version {END}: use {self.new}")
        setattr(namespace, self.dest, values)
