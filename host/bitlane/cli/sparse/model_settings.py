"""The model of `bitlane sparse train`: its arguments."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from bitlane.cli.argument_types import integers, positive
from bitlane.cli.old_spellings import add_old_spelling
from bitlane.errors import DataError

if TYPE_CHECKING:
    from bitlane.sparse.models.spec import ModelSpec
    from bitlane.sparse.parameters.optimizers import Optimizer

KINDS = ("lr", "fm", "ffm", "dnn", "widedeep", "deepfm")
NETWORKS = ("dnn", "widedeep", "deepfm")
OPTIMIZERS = ("ftrl", "adagrad", "sgd")
LOSSES = ("log_loss", "squared_error")
DEFAULTS: dict[str, Any] = {
    "model": "fm",
    "loss": "log_loss",
    "dim": None,
    "hidden": None,
    "fields": None,
    "optimizer": None,
    "learning_rate": None,
    "linear_rate": None,
    "l1": None,
    "l2": None,
    "batch_rows": None,
    "admit_after": 1,
    "statistics": False,
    "half_life": None,
}


# Rates of optimizers other than the recipe's, where one is named without a rate: of linear weights, and of factors.
RATES = {"ftrl": (0.3, 0.1), "adagrad": (0.3, 0.1), "sgd": (0.03, 0.03)}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the model and of its optimizers."""
    add = parser.add_argument_group("model").add_argument
    add("--model", choices=KINDS, help="lr, fm, ffm, or a network: dnn, widedeep, deepfm (default: fm)")
    add("--dim", type=positive, metavar="K", help="length of a factor or an embedding (default: 8; 4 for ffm)")
    add("--hidden", type=integers, metavar="SIZES", help="layers of a network, such as 64,32 (default: 64,32)")
    add("--fields", type=positive, metavar="N", help="number of fields, for ffm and networks (default: from the data)")
    add("--loss", choices=LOSSES, help="log_loss for labels 0 and 1, squared_error for numbers (default: log_loss)")
    add(
        "--admit-after",
        type=positive,
        metavar="K",
        help="give a key weights at its K-th occurrence (default: 1)",
    )
    add(
        "--statistics",
        action="store_true",
        help="add two features for each field: click rate and number of occurrences of its key in earlier rows, "
        "counted after each 1,000 rows",
    )
    add("--half-life", type=float, metavar="N", help="rows after which an occurrence counts half in the click rate")
    group = parser.add_argument_group("optimizer")
    add = group.add_argument
    add("--optimizer", choices=OPTIMIZERS, help="of all weights by key (default: depends on the model)")
    add(
        "--learning-rate",
        type=float,
        metavar="RATE",
        help="of the factors or embeddings; of all weights for lr; alpha of ftrl (default: depends on the model)",
    )
    add_old_spelling(group, "--alpha", "--learning-rate", type=float)
    add(
        "--linear-rate",
        type=float,
        metavar="RATE",
        help="of the linear weights of a model with factors (default: depends on the model)",
    )
    add(
        "--l1",
        type=float,
        metavar="X",
        help="penalty on the weights by key; ftrl leaves weights at exactly 0 (default: 0)",
    )
    add("--l2", type=float, metavar="X", help="penalty on the squared weights by key (default: 0; 0.00002 for ffm)")
    add(
        "--batch-rows",
        type=positive,
        metavar="B",
        help="rows per minibatch; 1 learns row by row (default: 1; 256 for networks and --engine ray)",
    )


def needs_fields(kind: str) -> bool:
    """Whether a kind of model must know the number of fields."""
    return kind == "ffm" or kind in NETWORKS


def model_spec(arguments: argparse.Namespace, fields: int) -> ModelSpec:
    """Return the model that the arguments describe.

    Parameters
    ----------
    arguments : Namespace
    fields : int
        Number of fields, those of statistics included; 0 for models that need not know it.

    Raises
    ------
    DataError
        An argument that the kind of model does not have, or a bad value.
    """
    from bitlane.sparse.models.recipes import RECIPES
    from bitlane.sparse.models.spec import ModelSpec

    kind, recipe = arguments.model, RECIPES[arguments.model]
    if recipe.factors is None:
        _refuse(arguments, kind, "dim", "linear_rate")
    if recipe.linear is None:
        _refuse(arguments, kind, "linear_rate")
    if kind not in NETWORKS:
        _refuse(arguments, kind, "hidden")
    linear_rate = arguments.learning_rate if recipe.factors is None else arguments.linear_rate
    return ModelSpec(
        kind,
        loss=arguments.loss,
        dim=arguments.dim,
        fields=fields,
        linear=_optimizer(arguments, recipe.linear, linear_rate, 0),
        factors=_optimizer(arguments, recipe.factors, arguments.learning_rate, 1),
        hidden=tuple(arguments.hidden or recipe.hidden),
        batch_rows=arguments.batch_rows or recipe.batch_rows,
        seed=arguments.seed,
        sightings=arguments.admit_after,
        track_age=bool(arguments.expire_after),
    )


def statistics_settings(arguments: argparse.Namespace, fields: int) -> dict[str, Any] | None:
    """Return the settings of the statistics of all fields, or None without `--statistics`."""
    if not arguments.statistics:
        return None
    if arguments.loss != "log_loss":
        raise DataError("--statistics needs labels 0 and 1, so it cannot be combined with --loss squared_error")
    from bitlane.sparse.parameters.statistics import StatisticsSettings

    return asdict(StatisticsSettings(tuple(range(fields)), fields, half_life=arguments.half_life))


def _refuse(arguments: argparse.Namespace, kind: str, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) is not None:
            raise DataError(f"--{name.replace('_', '-')}: {kind} has none; omit it, or choose another --model")


def _optimizer(
    arguments: argparse.Namespace, default: Optimizer | None, rate: float | None, block: int
) -> Optimizer | None:
    """The optimizer of linear weights (block 0) or of factors (block 1); None if the model has none."""
    from bitlane.sparse.parameters import optimizers

    if default is None:
        return None
    optimizer = default
    if arguments.optimizer not in (None, default.name):
        optimizer = optimizers.OPTIMIZERS[arguments.optimizer]()
        rate = RATES[optimizer.name][block] if rate is None else rate
    penalties = {name: getattr(arguments, name) for name in ("l1", "l2") if getattr(arguments, name) is not None}
    optimizer = replace(optimizer, **penalties)
    if rate is None:
        return optimizer
    return replace(optimizer, **{"alpha" if isinstance(optimizer, optimizers.FTRL) else "learning_rate": rate})
