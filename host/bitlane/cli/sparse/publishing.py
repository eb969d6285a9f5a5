"""`bitlane sparse train --publish`: versions of a model that goes on learning."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from bitlane.cli.companions import Companion
from bitlane.errors import DataError

if TYPE_CHECKING:
    from bitlane.sparse.engines.engine import PublishOptions
    from bitlane.sparse.registry.publisher import PeriodicPublisher, Sampled

    from .models import AnyModel

DEFAULTS: dict[str, Any] = {"publish": None, "publish_every": None}
COMPANION = Companion(
    ("publish_every",), "--publish", lambda arguments: getattr(arguments, "publish", None) is not None
)


def add_publishing_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of versions that are published while a model is trained."""
    add = parser.add_argument_group("versions").add_argument
    add("--publish", metavar="REGISTRY", help="publish the model at the end to this registry, a folder or URI")
    add(
        "--publish-every",
        type=float,
        metavar="SECONDS",
        help="also publish the changes every N seconds during training",
    )


def check(arguments: argparse.Namespace) -> None:
    """Refuse arguments that do not go together."""
    if arguments.publish is not None and arguments.statistics:
        raise DataError("--publish: models with --statistics cannot be published yet")


@contextmanager
def published(
    arguments: argparse.Namespace,
    settings: Mapping[str, Any],
    model: AnyModel,
    quiet: AbstractContextManager[None],
    sampled: Sampled,
) -> Iterator[PeriodicPublisher | None]:
    """Publish a model while it is trained, as the arguments say.

    Parameters
    ----------
    arguments : Namespace
    settings : dict
        Of the training.
    model : SparseModel
    quiet : context manager
    sampled : callable
        See `Publisher`.

    Yields
    ------
    PeriodicPublisher or None
    """
    if getattr(arguments, "publish", None) is None:
        yield None
        return
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.registry.folders import data_of
    from bitlane.sparse.registry.publisher import PeriodicPublisher, Publisher
    from bitlane.sparse.registry.registry import ModelRegistry

    if not isinstance(model, SparseModel):
        raise DataError("--publish: models with --statistics cannot be published yet")
    registry, described = ModelRegistry(arguments.publish), data_of(settings["data"])
    publisher = Publisher(registry, model, described, quiet=quiet, sampled=sampled)
    with PeriodicPublisher(publisher, getattr(arguments, "publish_every", None)) as periodic:
        yield periodic


def of_engine(arguments: argparse.Namespace, data: Mapping[str, Any]) -> PublishOptions | None:
    """Return what the ray engine needs for publishing, or None."""
    if getattr(arguments, "publish", None) is None:
        return None
    from bitlane.sparse.engines.engine import PublishOptions
    from bitlane.sparse.registry.folders import data_of

    return PublishOptions(arguments.publish, getattr(arguments, "publish_every", None), data_of(data))
