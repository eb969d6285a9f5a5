"""`bitlane train`: train one model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.contract.precision import FULL_BITS, SAMPLINGS, Precision
from bitlane.data.splits import hold_out
from bitlane.data.tables import Dataset
from bitlane.devices import DeviceSpec, opened_devices
from bitlane.encoded.table import EncodedTable
from bitlane.errors import DataError
from bitlane.estimators import SGDClassifier, SGDRegressor
from bitlane.estimators.saved import read_model
from bitlane.levels.codebooks import CHOICES, choose_precision
from bitlane.quantization.stochastic import uses_random_rounding
from bitlane.reporting.plots import draw
from bitlane.reporting.records import CHECKPOINT_NAME, Record, read_record
from bitlane.reporting.summary import run_record, run_summary
from bitlane.training.by_policy import policy_of
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.device_pool import ON_FAILURE
from bitlane.training.losses import EPSILON_LOSSES
from bitlane.training.objective import Objective

from .argument_types import bits, bounds, clip, positive
from .command import Command
from .companions import Companion, check_companions, given_options
from .output import check_run_folder, progress, report
from .source import SOURCE_DEFAULTS, is_dataset, load_source, source_name, source_path
from .summaries import SUMMARIES
from .training_arguments import (
    DEFAULTS,
    SHARED,
    add_outputs_argument,
    add_training_arguments,
    build_config,
    derive_epochs,
    fill,
)

TRAIN_DEFAULTS: dict[str, Any] = {
    **DEFAULTS,
    "loss": None,  # that of the task
    "bits": 4,
    "sampling": None,
    "levels": "uniform",
    "staleness": 0,
    "model_bits": None,
    "gradient_bits": None,
    "penalty": None,
    "alpha": 0.0,
    "l1_ratio": 0.15,
    "epsilon": 0.1,
    "bounds": None,
    "clip": "auto",
    "tol": None,
    "early_stopping": False,
    "class_weight": None,
    "test_fraction": None,
    "average_every": 1,
    "on_device_failure": "raise",
}
OBJECTIVE = ("loss", "penalty", "alpha", "bounds", "l1_ratio", "epsilon")
# Arguments that are parameters of the estimators under the same name.
ESTIMATOR_PARAMETERS = (
    *("levels", "draws", "epochs", "batch_size", "learning_rate", "decay"),
    *OBJECTIVE,
    *("tol", "early_stopping", "clip", "staleness", "model_bits", "gradient_bits", "average_every"),
)
# Besides these, a resumed training may not change what follows.
SOURCE = (*SOURCE_DEFAULTS, "test_fraction")
UNCHANGED = ("bits", "sampling", "seed", "class_weight", "task", *SOURCE)


# What options need to have an effect.
COMPANIONS = (
    Companion(("alpha",), "--penalty l1, l2 or elasticnet", lambda arguments: arguments.penalty is not None),
    Companion(("l1_ratio",), "--penalty elasticnet", lambda arguments: arguments.penalty == "elasticnet"),
    Companion(
        ("epsilon",), f"--loss {' or '.join(EPSILON_LOSSES)}", lambda arguments: arguments.loss in EPSILON_LOSSES
    ),
    Companion(("penalty",), "--alpha, the strength of the penalty", lambda arguments: arguments.alpha != 0),
    Companion(("draws",), "double sampling", lambda arguments: _draws(arguments)),
    Companion(
        ("average_every", "on_device_failure"),
        "several devices, as in --device cpu,cpu",
        lambda arguments: "," in arguments.device,
    ),
    *SHARED,
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--bits",
        type=bits,
        help="stored bits of a feature: even, 2 to 32, or 3 or 5; adaptive or mqgrad: variable (default: 4)",
    )
    add("--sampling", choices=SAMPLINGS, help="how samples are rounded (default: double; full for 32 bits)")
    add(
        "--levels",
        choices=CHOICES,
        help="uniform, or optimal: least variance for each feature, with 3 to 5 bits (default: uniform)",
    )
    add_training_arguments(parser, resumable=True)
    add("--staleness", type=int, choices=[0, 1], help="age of the weights in batches, 0 or 1 (default: 0)")
    add("--model-bits", type=int, help="bits of the weights in dot products, rounded at random, 2 to 23 (default: all)")
    add("--gradient-bits", type=int, help="bits of the scaled gradient, rounded at random, 2 to 32 (default: all)")
    add("--penalty", choices=["l2", "l1", "elasticnet"], help="penalty on the scaled weights (default: none)")
    add("--alpha", type=float, help="strength of the penalty (default: 0)")
    add("--l1-ratio", type=float, metavar="SHARE", help="share of L1 in elastic net, 0 to 1 (default: 0.15)")
    add("--epsilon", type=float, help="epsilon of the loss, in units of the target (default: 0.1)")
    add("--bounds", type=bounds, metavar="LOW,HIGH", help="bounds of the scaled weights, such as --bounds=0,none")
    add(
        "--clip",
        type=clip,
        metavar="{auto,none}",
        help="whether outliers of the columns are clipped (default: auto)",
    )
    add(
        "--tol",
        type=float,
        metavar="LOSS",
        help="end at a plateau: 5 epochs that improve the loss by less than this; regressions: in units of the "
        "variance of the target (default: all epochs run)",
    )
    add(
        "--early-stopping",
        action="store_true",
        help="end at a plateau of the score of a tenth of the rows, which are not trained on (default: no)",
    )
    add("--class-weight", choices=["balanced"], help="give rare classes larger weights (default: equal weights)")
    add(
        "--test-fraction",
        type=float,
        metavar="SHARE",
        help="hold out this share of the rows, of each class alike, and test the model on them (default: none)",
    )
    add_outputs_argument(parser)
    add(
        "--average-every",
        type=positive,
        metavar="EPOCHS",
        help="with several devices, as in --device cpu,cpu: epochs between averages of the shards' models (default: 1)",
    )
    add(
        "--on-device-failure",
        choices=ON_FAILURE,
        help="with several devices: stop if one fails, or let the others take over its work (default: raise)",
    )
    add(
        "--resume",
        type=Path,
        default=None,
        metavar="RUN_DIR",
        help="continue a run folder, with its data and options, up to --epochs in total",
    )


def _run(arguments: argparse.Namespace) -> None:
    given = given_options(arguments)
    checkpoint, earlier = _resumed(arguments) if arguments.resume else (None, None)
    fill(arguments, TRAIN_DEFAULTS)
    if not hasattr(arguments, "source"):
        raise DataError("DATA is missing: name a file or a data set (see bitlane train --help)")
    precision = _precision(arguments)
    check_companions(arguments, given, COMPANIONS)
    check_run_folder(arguments, arguments.resume)
    table, task = load_source(arguments)
    if arguments.test_fraction is not None:
        table = _held_out(arguments, table, task)
    squares = task == "regression" or arguments.bits == "adaptive"  # whose plans are for squared errors
    arguments.loss = arguments.loss or ("squared_error" if squares else "log_loss")
    model_type = SGDRegressor if task == "regression" else SGDClassifier
    arguments.epochs = derive_epochs(arguments, table.rows)
    parameters = _parameters(arguments, table, task, precision)
    epochs = arguments.epochs - (checkpoint.epoch if checkpoint else 0)
    rounding = uses_random_rounding(arguments.model_bits, arguments.gradient_bits)
    more = Objective(**{name: parameters[name] for name in OBJECTIVE}).more_objectives
    config = build_config(arguments, precision.level_slots, rounding, more)
    with opened_devices(arguments.device.split(","), config) as devices:
        device: DeviceSpec = [*devices] if len(devices) > 1 else devices[0]
        model = model_type(device=device, on_device_failure=arguments.on_device_failure, **parameters)
        with progress("training", epochs * _passes(table, task, arguments)) as advance:
            weights = table.X.weights if isinstance(table.X, EncodedTable) else None
            model.fit(table.X, table.y, weights, resume=checkpoint, on_epoch=advance, snapshots=True)
    source = {**{name: getattr(arguments, name) for name in SOURCE}, "path": source_path(arguments.source)}
    record = run_record(model, table, task, source_name(arguments.source), earlier, **source)

    def add(folder: Path) -> None:
        model.run_.checkpoint().save(folder / CHECKPOINT_NAME)
        draw(record, folder)

    report(run_summary(record), record, arguments.out, add)


COMMAND = Command("train", SUMMARIES["train"], _add_arguments, _run, suppress_defaults=True)


def _parameters(arguments: argparse.Namespace, table: Dataset, task: str, precision: Precision) -> dict[str, Any]:
    """The parameters of the estimator, but for the device."""
    parameters = {
        "bits": arguments.bits if policy_of(arguments.bits) else precision.bits,
        "sampling": precision.sampling,
        "random_state": arguments.seed,
        **{name: getattr(arguments, name) for name in ESTIMATOR_PARAMETERS},
    }
    if task == "classification":
        parameters["class_weight"] = arguments.class_weight
    elif arguments.class_weight is not None:
        name = source_name(arguments.source)
        raise DataError(f"--class-weight {arguments.class_weight}: {name} is a regression and has no classes")
    return parameters


def _held_out(arguments: argparse.Namespace, table: Dataset, task: str) -> Dataset:
    if table.held_out is not None:
        raise DataError(f"--test-fraction: {source_name(arguments.source)} has held-out rows; omit the option")
    return hold_out(table, arguments.test_fraction, arguments.seed, by_class=task == "classification")


def _resumed(arguments: argparse.Namespace) -> tuple[Checkpoint, Record]:
    """The checkpoint to resume and its record. Arguments that must stay as they were are taken from there."""
    given = [name for name in (*ESTIMATOR_PARAMETERS, *UNCHANGED) if name != "epochs" and hasattr(arguments, name)]
    if given:
        option = given[0].replace("_", "-")
        raise DataError(f"--{option}: a resumed training keeps its options; omit it, or start a new one")
    earlier = read_record(arguments.resume)
    if earlier.kind != "run":
        raise DataError(f"{arguments.resume} holds a {earlier.kind}, which cannot be resumed")
    checkpoint = Checkpoint.load(arguments.resume / CHECKPOINT_NAME)
    try:
        data, settings = earlier.header["data"], earlier.header["settings"]
        if "bit_policy" in settings:
            raise DataError(f"{arguments.resume}: a training with a bit policy cannot be resumed")
        was = {"task": data["task"], "class_weight": settings["class_weight"], **data["source"]}
    except (KeyError, TypeError) as error:
        raise DataError(f"{arguments.resume} lacks data for resuming ({error}): start a new training") from error
    options = {name: value for name, value in checkpoint.options.as_dict().items() if name != "epochs"}
    before = read_model(arguments.resume).estimator
    for name in ("tol", "early_stopping"):
        if getattr(before, name) not in (None, False):
            option = name.replace("_", "-")
            raise DataError(f"{arguments.resume}: a training with --{option} cannot be resumed: start a new one")
    options |= {"learning_rate": before.learning_rate, "decay": before.decay}  # perhaps auto
    fill(arguments, {**options, **was})
    _find_data(arguments)
    arguments.out = arguments.out or arguments.resume
    return checkpoint, earlier


def _find_data(arguments: argparse.Namespace) -> None:
    """Set the source of a resumed training, unless it is given, to that of its record."""
    path = getattr(arguments, "path", None)
    if hasattr(arguments, "source") or path is None:
        return
    if not is_dataset(path) and not Path(path).exists():
        raise DataError(f"{path}, the data of {arguments.resume}, is gone: if it has moved, name it before --resume")
    arguments.source = path


def _passes(table: Dataset, task: str, arguments: argparse.Namespace) -> int:
    """Passes over the data in each epoch: several if there are more than two classes."""
    classes = 1 if task == "regression" else len(np.unique(table.y))
    models = classes if classes > 2 else 1
    return models if arguments.class_weight else -(-models // arguments.outputs)


def _draws(arguments: argparse.Namespace) -> bool:
    """Whether samples are drawn at random, so that there are sets of draws."""
    return policy_of(arguments.bits) is not None or _precision(arguments).draws


def _precision(arguments: argparse.Namespace) -> Precision:
    sampling, policy = arguments.sampling, policy_of(arguments.bits)
    if policy is not None:  # of which only the sampling counts
        return choose_precision(policy.choices[0], sampling or "double", arguments.levels)
    if arguments.bits == FULL_BITS and sampling is None and arguments.levels == "uniform":
        sampling = "full"
    return choose_precision(arguments.bits, sampling or "double", arguments.levels)
