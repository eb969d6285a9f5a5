"""`bitlane sparse predict`: predictions for the rows of files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from bitlane.cli.command import Command
from bitlane.cli.output import check_file
from bitlane.errors import BitlaneError, DataError
from bitlane.support.atomic import atomic_write

from . import data
from .models import add_data_arguments, add_model_argument, load_model
from .progress import row_progress

COLUMN = "prediction"
SUFFIXES = (".csv", ".parquet")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_argument(parser)
    add_data_arguments(parser)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="csv or parquet file for the column prediction, one line per input row",
    )


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("predicting by a sparse model")
    if arguments.out.suffix not in SUFFIXES:
        raise DataError(f"--out {arguments.out}: the name must end with {' or '.join(SUFFIXES)}")
    check_file(arguments.out)
    from bitlane.sparse.models.losses import predictions
    from bitlane.sparse.training.loop import NOTICE

    model, settings = load_model(arguments)
    source = data.open_evaluation(arguments.data, settings, arguments.test_fraction, labelled=False)
    rows, known = 0, data.known_keys(settings)
    with ExitStack() as stack:
        stack.enter_context(NOTICE.watch())
        unfinished = stack.enter_context(atomic_write(arguments.out))
        write = stack.enter_context(_Writer(unfinished, arguments.out))
        bar = stack.enter_context(row_progress("predicting", None))
        for batch in stack.enter_context(closing(source.batches(0))):
            scores, has = model.scores_and_known(batch)
            write(predictions(model.spec.loss, scores))
            known.add(batch, has)
            rows += batch.rows
            if bar is not None:
                bar.on_rows(batch.rows)
    print(f"{rows:,} predictions written to {arguments.out}; {known.text()}")
    data.warn_of_unknown(known)


COMMAND = Command(
    "predict",
    "write the predictions of a model for the rows of files",
    _add_arguments,
    _run,
    description="Write the predictions of a model: probabilities of label 1, or numbers after squared_error. The label "
    "column may be missing. If a data set has held-out rows, only these are used.",
)


class _Writer:
    """Appends predictions to a CSV or Parquet file; a context manager. Errors have the name `shown`."""

    def __init__(self, path: Path, shown: Path):
        self._path, self._shown = path, shown

    def __enter__(self) -> Callable[[Any], None]:
        import pyarrow as pa
        from pyarrow import csv, parquet

        schema = pa.schema([(COLUMN, pa.float32())])
        with self._errors():
            if self._shown.suffix == ".csv":
                options = csv.WriteOptions(quoting_header="none")
                self._file: Any = csv.CSVWriter(str(self._path), schema, write_options=options)
            else:
                self._file = parquet.ParquetWriter(str(self._path), schema)

        def write(predictions: Any) -> None:
            with self._errors():
                self._file.write_table(pa.table({COLUMN: predictions}, schema=schema))

        return write

    def __exit__(self, *_: object) -> None:
        with self._errors():
            self._file.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from bitlane.sparse.servers.failures import reason_of

        try:
            yield
        except OSError as error:
            raise BitlaneError(f"{self._shown} cannot be written: {reason_of(error)}") from error
