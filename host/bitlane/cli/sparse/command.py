"""`bitlane sparse`: the commands of sparse models."""

from __future__ import annotations

import argparse

from bitlane.cli.command import Command, add_commands
from bitlane.cli.summaries import SUMMARIES

from . import (
    collect,
    compact,
    diff,
    evaluate,
    generate,
    inspect,
    predict,
    promote,
    publish,
    repair,
    rollback,
    schema,
    serve,
    status,
    train,
    validate,
    versions,
)

_MODULES = (train, evaluate, predict, inspect, status, schema, generate)
_OF_REGISTRY = (publish, versions, diff, compact, validate, promote, rollback, collect, repair, serve)
COMMANDS = tuple(module.COMMAND for module in (*_MODULES, *_OF_REGISTRY))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_commands(parser, COMMANDS)


def _run(_: argparse.Namespace) -> None:
    raise AssertionError("one of COMMANDS runs")


COMMAND = Command(
    "sparse",
    SUMMARIES["sparse"],
    _add_arguments,
    _run,
    description="Sparse models: logistic regression, factorization machines and networks over features with 64-bit "
    "keys, such as click logs. Needs pip install 'bitlane[sparse]'; networks need 'bitlane[torch]' too.",
    nested=True,
)
