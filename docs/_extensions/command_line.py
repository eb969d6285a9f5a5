"""The parser behind the command reference."""

from __future__ import annotations

import argparse

from bitlane.cli.parser import make_parser


def top_parser() -> argparse.ArgumentParser:
    """Return the parser of the `bitlane` command with all its subcommands."""
    return make_parser()
