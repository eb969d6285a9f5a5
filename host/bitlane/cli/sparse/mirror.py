"""`--mlflow`: what a command has changed in a registry, shown by MLflow."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bitlane.errors import BitlaneError
from bitlane.support.user_warnings import warn_user

if TYPE_CHECKING:
    from bitlane.sparse.registry.registry import ModelRegistry


def add_mirror_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the mirror."""
    parser.add_argument(
        "--mlflow", metavar="URI", help="also record versions and labels in the model registry of this MLflow server"
    )


def update_mirror(arguments: argparse.Namespace, registry: ModelRegistry) -> None:
    """Update the mirror, if it is asked for. The command's work is done: a failure is a warning."""
    if arguments.mlflow is None:
        return
    from bitlane.sparse.registry.mirror import mirror

    try:
        mirror(registry, arguments.mlflow)
    except BitlaneError as error:
        warn_user(str(error))
