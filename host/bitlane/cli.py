"""The command line, `bitlane`: train, compare, plot; devices, datasets.

Results go to stdout; progress (on a terminal), notes and errors to stderr. An expected error is one line and
exit status 2, and nothing is written; Ctrl-C is exit status 130.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from . import __version__
from .compare import SAMPLINGS, Schedule, compare, one_against_rest, precisions_of
from .datasets import list_datasets, load_dataset, where
from .devices import available_devices
from .errors import BitlaneError, DataError
from .estimators import SGDClassifier, SGDRegressor
from .extras import extra
from .plots import curve_label, draw
from .quantize import FULL_BITS, Precision
from .records import Record, check_folder, read_record, write_record
from .schedules import DECAY, suggest_learning_rate
from .summary import aligned, comparison_summary, run_record, run_summary
from .tables import Table, near_names, read_table
from .training import OnEpoch

FEW_CLASSES = 20  # as many whole numbers, or fewer, are taken for classes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own); returns the exit status."""
    try:
        arguments = _parser().parse_args(argv)
        with _notes():
            arguments.command(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has said what there was to say
        return int(stop.code or 0)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BitlaneError as error:
        return _fail(str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}")
    except MemoryError:
        return _fail("not enough memory: train on a part of the rows")
    except KeyboardInterrupt:
        print("bitlane: interrupted", file=sys.stderr)
        return 130
    return 0


def _fail(message: str) -> int:
    print(f"bitlane: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


@contextlib.contextmanager
def _notes() -> Iterator[None]:
    """Warnings as lines `bitlane: note: ...`, each once."""
    said: set[str] = set()

    def note(message: Warning | str, *_: object) -> None:
        line = " ".join(str(message).split())
        if line not in said:
            said.add(line)
            print(f"bitlane: note: {line}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = note  # type: ignore[assignment]
        yield


# --- train ---------------------------------------------------------------------------------------
def _train(arguments: argparse.Namespace) -> None:
    precision = _precision(arguments)
    _writable(arguments.out)
    table, task = _load(arguments)
    rate = arguments.learning_rate
    if rate is None:
        rate = suggest_learning_rate(table.X, arguments.batch_size, precision)
    model = (SGDRegressor if task == "regression" else SGDClassifier)(
        bits=precision.bits,
        sampling=precision.sampling,
        draws=arguments.draws,
        epochs=arguments.epochs,
        batch_size=arguments.batch_size,
        learning_rate=rate,
        decay=arguments.decay,
        penalty=arguments.penalty,
        alpha=arguments.alpha,
        device=arguments.device,
        random_state=arguments.seed,
    )
    with _progress("training", arguments.epochs * _models(table, task)) as advance:
        model.fit(table.X, table.y, on_epoch=advance, snapshots=True)
    record = run_record(model, table, task, _name(arguments.source))
    _report(run_summary(record), record, arguments.out)


def _models(table: Table, task: str) -> int:
    """How many linear models: one for each of more than two classes."""
    classes = 1 if task == "regression" else len(np.unique(table.y))
    return classes if classes > 2 else 1


def _precision(arguments: argparse.Namespace) -> Precision:
    sampling = arguments.sampling
    if arguments.bits == FULL_BITS and sampling is None:
        sampling = "full"
    return Precision(arguments.bits, sampling or "double")


def _writable(out: Path | None) -> None:
    """Refuse a folder that must not be replaced, and plots without matplotlib, before anything is trained."""
    if out is not None:
        check_folder(out)
        extra("matplotlib", "plotting (--out)")


def _report(summary: str, record: Record, out: Path | None) -> None:
    """Write the run folder first: whoever reads our output may stop reading."""
    if out is not None:
        write_record(out, record, lambda folder: draw(record, folder))
        summary += f"\n\nwritten to {out}: {', '.join(sorted(path.name for path in out.iterdir()))}"
    print(summary)


# --- compare -------------------------------------------------------------------------------------
def _compare(arguments: argparse.Namespace) -> None:
    precisions = precisions_of(arguments.bits, arguments.sampling)
    _writable(arguments.out)
    table, task = _load(arguments)
    name, y = _name(arguments.source), table.y
    title = name if table.target == "y" else f"{name}: {table.target}"
    if task == "regression":
        if arguments.positive is not None:
            raise DataError(f"--positive {arguments.positive}: {name} is a regression, it has no classes")
    else:
        y, positive = one_against_rest(y, arguments.positive)
        title = f"{name}: class {positive} against the rest"
    rate = arguments.learning_rate
    if rate is None:
        rate = suggest_learning_rate(table.X, arguments.batch_size)
    schedule = Schedule(
        epochs=arguments.epochs,
        batch_size=_at_most_rows(arguments.batch_size, table.rows),
        learning_rate=rate,
        decay=arguments.decay,
        draws=arguments.draws,
        seed=arguments.seed,
    )
    _note_noisy(table, precisions, schedule)
    runs = 1 + len(precisions)
    order = np.random.default_rng(arguments.seed).permutation(table.rows)  # one for all: sorted rows mislead SGD
    with _progress("comparing", runs * schedule.epochs) as advance:
        comparison = compare(
            table.X[order], y[order], precisions, schedule, device=arguments.device, title=title, on_epoch=advance
        )
    _report(comparison_summary(comparison), comparison.record(name), arguments.out)


def _note_noisy(table: Table, precisions: Sequence[Precision], schedule: Schedule) -> None:
    """Say which precisions need smaller steps than the schedule that all share."""
    for precision in precisions:
        rate = suggest_learning_rate(table.X, schedule.batch_size, precision)
        if precision.draws and schedule.learning_rate > 4 * rate:
            label = curve_label(precision.sampling, precision.bits)
            warnings.warn(
                f"{label}: learning rate {schedule.learning_rate:g} is large for so few levels; "
                f"about {rate:g} suits it (--learning-rate {rate:g})",
                stacklevel=2,
            )


def _at_most_rows(batch_size: int, rows: int) -> int:
    if batch_size > rows:
        message = f"batch_size={batch_size} exceeds the {rows} rows: one batch takes them all"
        warnings.warn(message, stacklevel=2)
    return min(batch_size, rows)


# --- plot, devices, datasets ---------------------------------------------------------------------
def _plot(arguments: argparse.Namespace) -> None:
    record = read_record(arguments.folder)
    with tempfile.TemporaryDirectory(prefix=".plots.", dir=arguments.folder) as part:
        for path in draw(record, part):
            os.replace(path, arguments.folder / path.name)
            print(arguments.folder / path.name)


def _devices(_: argparse.Namespace) -> None:
    cells = [["device", "available", "reason"]]
    for device in available_devices():
        cells.append([device.name, "yes" if device.available else "no", device.reason])
    print(aligned(cells, left=3))


def _datasets(_: argparse.Namespace) -> None:
    cells = [["data set", "task", "what", "from", "rows", "features"]]
    for known in list_datasets():
        place = where(known) or "set BITLANE_DATA"
        cells.append([known.name, known.task, known.about, place, f"{known.rows:,}", f"{known.features}"])
    print(aligned(cells, left=4))


# --- what both trainings share -------------------------------------------------------------------
def _load(arguments: argparse.Namespace) -> tuple[Table, str]:
    """The table and the task."""
    known = {known.name: known for known in list_datasets()}
    source = arguments.source
    if source in known and not Path(source).is_file():
        if arguments.target is not None:
            raise DataError(f"data set {source!r} has one target: leave --target out")
        table, task = load_dataset(source), known[source].task
        found = "regression" if task == "regression" else "classification"
    else:
        if not Path(source).exists() and not Path(source).suffix:
            near = near_names(source, list(known)) or "; see bitlane datasets"
            raise DataError(f"no file or data set {source!r}{near}")
        table = read_table(source, arguments.target, impute=arguments.impute)
        found = guessed_task(table)
    if arguments.task != "auto":
        found = arguments.task
    if found == "regression" and table.y.dtype.kind != "f":
        raise DataError(f"target {table.target!r} holds words: only --task classification can learn them")
    return table, found


def guessed_task(table: Table) -> str:
    """ "classification" for words, two values, or few whole numbers that repeat; else "regression"."""
    if table.y.dtype.kind != "f":
        return "classification"
    values = np.unique(table.y)
    few = len(values) <= FEW_CLASSES and len(values) * 5 <= table.rows and bool(np.all(values % 1 == 0))
    return "classification" if len(values) == 2 or few else "regression"


def _name(source: str) -> str:
    return Path(source).name


@contextlib.contextmanager
def _progress(what: str, epochs: int) -> Iterator[OnEpoch | None]:
    """A bar on stderr where that is a terminal; gives what `on_epoch` takes."""
    if not sys.stderr.isatty():
        yield None
        return
    with extra("tqdm", "a progress bar").tqdm(total=epochs, desc=what, unit="epoch", leave=False) as bar:
        yield lambda epoch, loss: bar.update()


# --- the command line ----------------------------------------------------------------------------
class _Parser(argparse.ArgumentParser):
    """Its errors are one line, as all others are."""

    def error(self, message: str) -> NoReturn:
        raise SystemExit(_fail(f"{message} (see {self.prog} --help)"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="bitlane", description="Trains linear models on samples stored with few bits.")
    parser.add_argument("--version", action="version", version=f"bitlane {__version__}")
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)

    train = commands.add_parser("train", help="train one model", description="Train one model.")
    train.add_argument("--bits", type=int, default=4, help="stored bits a feature, even, 2 to 32 (4)")
    train.add_argument("--sampling", choices=[*SAMPLINGS, "full"], help="how they are drawn (double; full for 32 bits)")
    _shared(train)
    train.add_argument("--penalty", choices=["l2"], help="penalty on the scaled weights (none)")
    train.add_argument("--alpha", type=float, default=0.0, help="its strength (0)")
    train.set_defaults(command=_train)

    both = commands.add_parser(
        "compare",
        help="train at several precisions and compare",
        description="Train in float64, at full precision, and at each precision asked for, "
        "all with the same order and schedule.",
    )
    both.add_argument("--bits", type=_bits, default=[2, 4, 8, 32], help="stored bits a feature (2,4,8,32)")
    both.add_argument("--sampling", type=_words, default=list(SAMPLINGS), help=f"({','.join(SAMPLINGS)})")
    both.add_argument("--positive", metavar="CLASS", help="the class that is told from the rest")
    _shared(both)
    both.set_defaults(command=_compare)

    plot = commands.add_parser("plot", help="draw a run folder's plots again")
    plot.add_argument("folder", type=Path, metavar="RUN_DIR")
    plot.set_defaults(command=_plot)
    commands.add_parser("devices", help="list the devices").set_defaults(command=_devices)
    commands.add_parser("datasets", help="list the data sets").set_defaults(command=_datasets)
    return parser


def _shared(parser: argparse.ArgumentParser) -> None:
    """What train and compare both take."""
    add = parser.add_argument
    add(
        "source",
        metavar="FILE_OR_DATASET",
        help="csv, tsv, parquet, libsvm, npz, npy; or see bitlane datasets",
    )
    add("--target", metavar="NAME", help="the label column")
    add("--task", choices=["auto", "regression", "classification"], default="auto", help="(auto)")
    add("--impute", action="store_true", help="replace NaN and inf by the column's mean")
    add("--draws", type=_draws, default="epoch", help="random sets: epoch (fresh in each), once, or a number")
    add("--epochs", type=_positive, default=20, help="(20)")
    add("--batch-size", type=_positive, default=16, help="rows of a mini-batch (16)")
    add("--learning-rate", type=_rate, metavar="RATE", help="on scaled data (auto: from the data's spread)")
    add("--decay", type=float, default=DECAY, help=f"of the learning rate, each epoch, 0.5 to 1 ({DECAY})")
    add("--device", default="rtl", help="rtl, emulator, auto; see bitlane devices (rtl)")
    add("--seed", type=_seed, default=0, help="of the order of the rows and of the draws (0)")
    add("--out", type=Path, metavar="DIR", help="write a run folder: run.jsonl, model.npz, plots")


def _bits(text: str) -> list[int]:
    return [int(word) for word in _words(text)]


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of words with commas between them")
    return words


def _draws(text: str) -> str | int:
    return text if text in ("once", "epoch") else int(text)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be 1 or more")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} must be 0 or more")
    return value


def _rate(text: str) -> float | None:
    return None if text == "auto" else float(text)
