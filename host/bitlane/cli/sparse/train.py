"""`bitlane sparse train`: train a sparse model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane import __version__
from bitlane.cli.argument_types import positive, seed
from bitlane.cli.command import Command
from bitlane.cli.companions import Companion, check_companions, given_options
from bitlane.cli.output import OVERWRITE, add_out_arguments
from bitlane.cli.training_arguments import fill
from bitlane.errors import DataError
from bitlane.sparse.periods import CHECKPOINT_ROWS, WINDOW_ROWS
from bitlane.support.optional import require_extra
from bitlane.support.text import option_of

from . import columns, data, data_arguments, engine, model_settings, publishing
from .model_settings import NETWORKS
from .models import open_model
from .progress import row_progress
from .summary import negatives_text, training_summary, warn_if_worse_than_constant, workers_text

if TYPE_CHECKING:
    from bitlane.sparse.training.bookkeeping import SparseTrainingResult
    from bitlane.sparse.training.run_folder import RunFolder
    from bitlane.sparse.training.windows import Quality

    from .models import AnyModel

TRAINING: dict[str, Any] = {
    "epochs": 1,
    "threads": 1,
    "window_rows": WINDOW_ROWS,
    "checkpoint_rows": CHECKPOINT_ROWS,
    "expire_after": 0,
    "drop_zeros": False,
    "device": "cpu",
}
DEFAULTS: dict[str, Any] = {
    **data_arguments.DEFAULTS,
    **model_settings.DEFAULTS,
    **engine.DEFAULTS,
    **TRAINING,
    **publishing.DEFAULTS,
    "data": [],
    "out": None,
}
CHANGEABLE = ("epochs", "metrics_port", "resume", "verbose", *publishing.DEFAULTS)  # with --resume
COMPANIONS = (
    Companion(("checkpoint_rows",), "--out, the folder of the checkpoints", lambda arguments: bool(arguments.out)),
    Companion(
        ("device",), "a network (--model dnn, widedeep or deepfm)", lambda arguments: arguments.model in NETWORKS
    ),
    Companion(("half_life",), "--statistics", lambda arguments: arguments.statistics),
    publishing.COMPANION,
    OVERWRITE,
    *engine.COMPANIONS,
)
INTERRUPTED = 130  # exit status, as of a program that Ctrl-C ended


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        nargs="*",
        metavar="DATA",
        help="libsvm, libffm, vw, csv, tsv, json, parquet, arrow or npz files, folders, globs, URIs such as s3://, or "
        "a data set's name",
    )
    group = parser.add_argument_group("run")
    add = group.add_argument
    add("--epochs", type=positive, metavar="N", help="passes over the data, in total (default: 1)")
    add(
        "--threads",
        type=positive,
        metavar="N",
        help="learning threads; with more than 1, results differ from run to run (default: 1)",
    )
    add_out_arguments(group, "run.jsonl, checkpoints, the model and plots", "refuse")
    add(
        "--resume",
        type=Path,
        metavar="DIR",
        help="continue a run folder from its last checkpoint, with its data and options",
    )
    add(
        "--window-rows",
        type=positive,
        metavar="N",
        help=f"rows between reports of AUC and loss (default: {WINDOW_ROWS})",
    )
    add(
        "--checkpoint-rows",
        type=seed,
        metavar="N",
        help="rows between checkpoints, of the servers with --engine ray; 0: at the end only "
        f"(default: {CHECKPOINT_ROWS})",
    )
    add("--expire-after", type=seed, metavar="N", help="remove keys not seen in the last N rows; 0: never (default: 0)")
    add("--drop-zeros", action="store_true", help="remove keys whose weights are all 0, as after l1")
    add("--metrics-port", metavar="[HOST:]PORT", help="serve live metrics to Prometheus")
    add("--device", metavar="NAME", help="torch device for the layers of a network (default: cpu)")
    model_settings.add_model_arguments(parser)
    engine.add_engine_arguments(parser)
    publishing.add_publishing_arguments(parser)
    data_arguments.add_columns_arguments(parser)
    data_arguments.add_test_arguments(parser)
    data_arguments.add_order_arguments(parser)


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("training a sparse model")
    from bitlane.sparse.training.run_folder import RunFolder, check_free, remove_training

    with ExitStack() as stack:
        if hasattr(arguments, "resume"):
            check_companions(arguments, given_options(arguments), [publishing.COMPANION])
            resumed = stack.enter_context(_resumed(arguments))
            run: RunFolder | None = resumed
            settings = resumed.settings
        else:
            given = given_options(arguments)
            columns.apply_reader(arguments)
            fill(arguments, DEFAULTS)
            if not arguments.data:
                raise DataError("DATA is missing (see bitlane sparse train --help)")
            check_companions(arguments, given, COMPANIONS)
            if arguments.out is not None:
                if not getattr(arguments, "overwrite", False):
                    check_free(arguments.out)
                require_extra("matplotlib", "plotting (--out)")
            settings = _new_settings(arguments)
            if getattr(arguments, "overwrite", False):
                remove_training(arguments.out)
            run = stack.enter_context(RunFolder.create(arguments.out, settings)) if arguments.out else None
        opened = data.open_training(settings["data"], run.progress.offset if run is not None else None)
        result, model, notes = _train(arguments, settings, run, opened)
        quality = _evaluate(model, opened) if result.reason != "interrupted" else None
        if run is not None:
            _finish(run, settings, quality)
        print(training_summary(settings, result, model, quality, opened.name, run, notes))
        warn_if_worse_than_constant(quality or (result.windows[-1].quality if result.windows else None))
        _explain_end(result, run)


COMMAND = Command(
    "train",
    "train a sparse model, and measure each window of rows before it is learned",
    _add_arguments,
    _run,
    description="Train a sparse model. AUC, log loss and calibration of each window of rows are measured before the "
    "model learns these rows. With one thread, the same command gives bit-identical results.",
    suppress_defaults=True,
)


class _Columns:
    """Prints once what the training makes of the columns: with its first rows, since an error is one line."""

    def __init__(self, settings: data.Settings):
        from bitlane.sparse.batches.schema import Schema, read_schema

        schema = read_schema(settings)
        self._lines = [f"{data.data_name(settings['paths'])}: {schema.text()}"] if isinstance(schema, Schema) else []

    def on_rows(self, _: int) -> None:
        """Print the columns, if that was not done."""
        if self._lines:
            print(self._lines.pop(), file=sys.stderr)


def _new_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a run folder keeps: everything that the training depends on."""
    engine_settings = engine.engine_settings(arguments)
    publishing.check(arguments)
    settings = data.new_settings(arguments, data.LOSS_TASKS[arguments.loss])
    fields, limited = 0, model_settings.needs_fields(arguments.model)
    if limited or arguments.statistics:
        fields = arguments.fields or data.count_fields(settings)
        settings["fields"] = fields
    elif arguments.fields is not None:
        raise DataError(f"--fields: {arguments.model} has none; omit it, or choose another --model")
    statistics = model_settings.statistics_settings(arguments, fields)
    if statistics is not None:
        fields += len(statistics["fields"]) * len(statistics["kinds"])
    if engine_settings is not None and arguments.batch_rows is None:
        arguments.batch_rows = engine.worker_batch_rows(arguments.model)
    spec = model_settings.model_spec(arguments, fields if limited else 0)
    return {
        "bitlane": __version__,
        "model": spec.to_json(),
        "statistics": statistics,
        "training": {name: getattr(arguments, name) for name in TRAINING},
        "engine": engine_settings,
        "data": settings,
    }


def _resumed(arguments: argparse.Namespace) -> RunFolder:
    """The run folder to go on with."""
    from bitlane.sparse.training.run_folder import RunFolder

    allowed = {*CHANGEABLE, *engine.CHANGEABLE, "command", "name"}
    given = [name for name, value in vars(arguments).items() if name not in allowed and value not in ([], None)]
    if given:
        option = "DATA" if given[0] == "data" else option_of(given[0])
        raise DataError(f"{option}: a resumed training keeps its data and options; omit it, or start a new one")
    run = RunFolder.resume(arguments.resume)
    given = [name for name in engine.CHANGEABLE if hasattr(arguments, name)]
    if given and not run.settings.get("engine"):
        run.log.close()
        raise DataError(f"{option_of(given[0])}: the training in {run.path} has no servers; omit it")
    run.settings["training"] = {**run.settings["training"], **_changes(arguments)}
    return run


def _changes(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"epochs": arguments.epochs} if hasattr(arguments, "epochs") else {}


def _model(settings: dict[str, Any], run: RunFolder | None) -> AnyModel:
    """A new model, or that of the last checkpoint."""
    from bitlane.sparse.models.enriched import EnrichedModel
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.models.spec import ModelSpec
    from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings

    device = settings["training"]["device"]
    if run is not None and run.model is not None:
        return open_model(run.model, device)
    model = SparseModel(ModelSpec.from_json(settings["model"]), device)
    if settings["statistics"] is None:
        return model
    return EnrichedModel(model, Statistics(StatisticsSettings(**settings["statistics"])))


def _train(
    arguments: argparse.Namespace,
    settings: dict[str, Any],
    run: RunFolder | None,
    opened: data.TrainingData,
) -> tuple[SparseTrainingResult, AnyModel, list[str]]:
    """Train; return the result, the model, and lines about the workers and the negatives if there are any."""
    from bitlane.sparse.batches.source import Thinned
    from bitlane.sparse.tables.locks import ReadersWriterLock
    from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer
    from bitlane.sparse.training.metrics import MetricsServer

    training = settings["training"]
    options = SparseTrainingOptions(
        **{name: training[name] for name in ("epochs", "threads", "window_rows", "checkpoint_rows", "drop_zeros")},
        expire_rows=training["expire_after"],
    )
    done = run.progress.rows_done if run is not None else 0
    total = None if opened.rows is None else opened.rows * options.epochs
    with ExitStack() as stack:
        bar = stack.enter_context(row_progress("training", total, done))
        server = stack.enter_context(MetricsServer(arguments.metrics_port)) if _has(arguments, "metrics_port") else None
        watchers = [watcher for watcher in (bar, server) if watcher is not None]
        on_window = [watcher.on_window for watcher in watchers]

        callbacks: list[Callable[[int], object]] = [watcher.on_rows for watcher in watchers]
        if not hasattr(arguments, "resume"):
            callbacks.append(_Columns(settings["data"]).on_rows)

        def on_rows(rows: int) -> None:
            for callback in callbacks:
                callback(rows)

        if settings.get("engine"):
            result = engine.train_on_ray(arguments, settings, run, on_window, on_rows)
            counts = (result.counts.negatives_kept, result.counts.negatives_read)
            return result.training, result.model, [workers_text(result), *_negatives(settings, counts)]
        model, learning = _model(settings, run), ReadersWriterLock()
        trainer = Trainer(
            model, opened.train, options, run=run, on_window=on_window, on_rows=on_rows, learning=learning.shared
        )
        sampled = partial(getattr, trainer.progress, "sample")
        with publishing.published(arguments, settings, model, learning.exclusive, sampled) as publisher:
            if publisher is not None:
                trainer.on_window.append(publisher.on_window)
            local, source = trainer.run(), opened.train
            counts = source.thinning.counts() if isinstance(source, Thinned) else (0, 0)
            return local, model, _negatives(settings, counts)


def _negatives(settings: dict[str, Any], counts: tuple[int, int]) -> list[str]:
    share = settings["data"].get("negatives")
    return [] if share is None else [negatives_text(counts, share)]


def _has(arguments: argparse.Namespace, name: str) -> bool:
    return getattr(arguments, name, None) is not None


def _evaluate(model: AnyModel, opened: data.TrainingData) -> Quality | None:
    from bitlane.sparse.training.evaluation import evaluate

    if opened.test is None:
        return None
    with row_progress("evaluating", None) as bar:
        return evaluate(model, opened.test.batches(0), None if bar is None else bar.on_rows)


def _finish(run: RunFolder, settings: dict[str, Any], quality: Quality | None) -> None:
    """Add the evaluation and the plots to the run folder."""
    from bitlane.sparse.training.log import read_log
    from bitlane.sparse.training.plots import draw
    from bitlane.sparse.training.windows import quality_fields

    if quality is not None:
        run.log.append("test", quality_fields(quality))
    lines = read_log(run.path)
    if any(line["kind"] == "window" for line in lines):
        draw(lines, run.path, f"{settings['model']['kind']} on {data.data_name(settings['data']['paths'])}")


def _explain_end(result: SparseTrainingResult, run: RunFolder | None) -> None:
    if result.reason == "interrupted":
        hint = f"; go on with: bitlane sparse train --resume {run.path}" if run is not None else ""
        print(f"bitlane: interrupted after {result.rows_done:,} rows{hint}", file=sys.stderr)
        raise SystemExit(INTERRUPTED)
