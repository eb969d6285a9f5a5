"""The command line, `bitlane`: train and compare, levels, devices, data sets, papers, gradient compression, self test.

Results go to stdout; progress (on a terminal), notes and errors to stderr. An expected error is one line and
exit status 2, and nothing is written; a failed self test is exit status 1, Ctrl-C 130.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.data.datasets import list_datasets, load_dataset, location_of
from bitlane.data.tables import Dataset, near_names, read_dataset
from bitlane.devices import Device, available_devices, open_device
from bitlane.errors import BitlaneError, DataError
from bitlane.estimators.sgd import SGDClassifier, SGDRegressor
from bitlane.evaluation.compare import ComparisonData, binary_labels, compare, one_vs_rest, precisions_of
from bitlane.evaluation.level_savings import column_scaling, feature_levels, savings
from bitlane.evaluation.schedules import Schedule, suggest_learning_rate
from bitlane.levels.codebooks import choose_precision
from bitlane.quantization.labels import curve_label
from bitlane.quantization.precision import FULL_BITS, Precision
from bitlane.quantization.stochastic import uses_random_rounding
from bitlane.reporting.levels_plot import Panel, levels_plot
from bitlane.reporting.levels_text import SHOWN, savings_summary
from bitlane.reporting.plots import draw
from bitlane.reporting.records import CHECKPOINT_NAME, Record, check_folder, read_record, write_record
from bitlane.reporting.summary import comparison_record, comparison_summary, run_record, run_summary
from bitlane.selftest import examine
from bitlane.studies.papers.command import reproduce
from bitlane.studies.papers.paper import default_page
from bitlane.support.atomic import atomic_write
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane.training.by_policy import policy_of
from bitlane.training.checkpoint import Checkpoint

from .parser import AS_BEGUN, AS_GIVEN, COMPARE, LEVELS, TRAIN, fill, make_parser

DRAWN_BITS = 8  # more levels than those of so many stored bits cannot be told apart in a plot
FEW_CLASSES = 20  # as many whole numbers, or fewer, are taken for classes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own); returns the exit status."""
    try:
        arguments = make_parser(_COMMANDS).parse_args(argv)
        with _notes():
            arguments.command(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse, or the self test, has said what there was to say
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
    checkpoint, earlier = _resumed(arguments) if arguments.resume else (None, None)
    fill(arguments, TRAIN)
    precision = _precision(arguments)
    _writable(arguments.out)
    table, task = _load(arguments)
    rate = arguments.learning_rate
    if rate is None:
        rate = suggest_learning_rate(table.X, arguments.batch_size, precision, loss=arguments.loss)
    parameters = {
        "bits": arguments.bits if policy_of(arguments.bits) else precision.bits,
        "sampling": precision.sampling,
        "learning_rate": rate,
        "random_state": arguments.seed,
        **{name: getattr(arguments, name) for name in AS_GIVEN},
    }
    if task == "classification":
        parameters["class_weight"] = arguments.class_weight
    elif arguments.class_weight is not None:
        raise DataError(f"--class-weight {arguments.class_weight}: {_name(arguments.source)} has no classes")
    epochs = arguments.epochs - (checkpoint.epoch if checkpoint else 0)
    with _device(arguments, precision) as device:
        model = (SGDRegressor if task == "regression" else SGDClassifier)(device=device, **parameters)
        with _progress("training", epochs * _passes(table, task, arguments)) as advance:
            model.fit(table.X, table.y, resume=checkpoint, on_epoch=advance, snapshots=True)
    source = {name: getattr(arguments, name) for name in ("target", "impute")}
    record = run_record(model, table, task, _name(arguments.source), earlier, **source)

    def add(folder: Path) -> None:
        model.run_.checkpoint().save(folder / CHECKPOINT_NAME)
        draw(record, folder)

    _report(run_summary(record), record, arguments.out, add)


def _resumed(arguments: argparse.Namespace) -> tuple[Checkpoint, Record]:
    """The checkpoint to go on from and its record; all that must stay as it was is taken over from there."""
    given = [name for name in (*AS_GIVEN, *AS_BEGUN) if name != "epochs" and hasattr(arguments, name)]
    if given:
        option = given[0].replace("_", "-")
        raise DataError(f"--{option}: a resumed training goes on as it began; leave it out, or train anew")
    earlier = read_record(arguments.resume)
    if earlier.kind != "run":
        raise DataError(f"{arguments.resume} holds a {earlier.kind}, which cannot be resumed")
    checkpoint = Checkpoint.load(arguments.resume / CHECKPOINT_NAME)
    try:
        data, settings = earlier.header["data"], earlier.header["settings"]
        if "bit_policy" in settings:
            raise DataError(f"{arguments.resume}: a training whose bits a policy chose cannot be resumed")
        was = {"task": data["task"], "class_weight": settings["class_weight"], **data["source"]}
    except (KeyError, TypeError) as error:
        raise DataError(f"{arguments.resume} lacks what resuming needs ({error}): run it again") from error
    fill(arguments, {**asdict(checkpoint.options), **was})
    return checkpoint, earlier


def _passes(table: Dataset, task: str, arguments: argparse.Namespace) -> int:
    """How often the data is gone through each epoch: for several of more than two classes at a time."""
    classes = 1 if task == "regression" else len(np.unique(table.y))
    models = classes if classes > 2 else 1
    return models if arguments.class_weight else -(-models // arguments.outputs)


@contextlib.contextmanager
def _device(arguments: argparse.Namespace, precision: Precision | None = None) -> Iterator[Device]:
    """The device asked for, open; with the lanes that the precision needs."""
    slots = 0 if precision is None else precision.level_slots
    random = uses_random_rounding(*(getattr(arguments, name, None) for name in ("model_bits", "gradient_bits")))
    config = AcceleratorConfig(arguments.width, arguments.outputs, level_slots=slots, random_rounding=random)
    device = open_device(arguments.device, config)
    try:
        yield device
    finally:
        device.close()


def _precision(arguments: argparse.Namespace) -> Precision:
    sampling, policy = arguments.sampling, policy_of(arguments.bits)
    if policy is not None:  # the fewest bits are the noisiest: a learning rate that suits them suits all
        return choose_precision(policy.choices[0], sampling or "double", arguments.levels)
    if arguments.bits == FULL_BITS and sampling is None and arguments.levels == "uniform":
        sampling = "full"
    return choose_precision(arguments.bits, sampling or "double", arguments.levels)


def _writable(out: Path | None) -> None:
    """Refuse a folder that must not be replaced, and plots without matplotlib, before anything is trained."""
    if out is not None:
        check_folder(out)
        require_extra("matplotlib", "plotting (--out)")


def _report(summary: str, record: Record, out: Path | None, add: Callable[[Path], object]) -> None:
    """Write the run folder first: whoever reads our output may stop reading."""
    if out is not None:
        write_record(out, record, add)
        summary += f"\n\nwritten to {out}: {', '.join(sorted(path.name for path in out.iterdir()))}"
    print(summary)


# --- compare -------------------------------------------------------------------------------------
def _compare(arguments: argparse.Namespace) -> None:
    fill(arguments, COMPARE)
    precisions, staleness = precisions_of(arguments.bits, arguments.sampling), sorted(set(arguments.staleness))
    if not set(staleness) <= {0, 1}:
        raise DataError(f"--staleness {','.join(map(str, arguments.staleness))}: choose 0, 1 or 0,1")
    _writable(arguments.out)
    table, task = _load(arguments)
    name, y, held_out = _name(arguments.source), table.y, None
    title = name if table.target == "y" else f"{name}: {table.target}"
    if task == "regression":
        for option, value in (("positive", arguments.positive), ("loss", arguments.loss)):
            if value not in (None, "squared_error"):
                raise DataError(f"--{option} {value}: {name} is a regression, it has no classes")
    else:
        y, positive = one_vs_rest(y, arguments.positive)
        if table.held_out is not None:
            held_out = (table.held_out[0], binary_labels(table.held_out[1], positive))
        title = f"{name}: class {positive} against the rest"
    rate = arguments.learning_rate
    if rate is None:
        rate = suggest_learning_rate(table.X, arguments.batch_size, loss=arguments.loss)
    schedule = Schedule(
        epochs=arguments.epochs,
        batch_size=_at_most_rows(arguments.batch_size, table.rows),
        learning_rate=rate,
        decay=arguments.decay,
        draws=arguments.draws,
        loss=arguments.loss,
        seed=arguments.seed,
    )
    _note_noisy(table, precisions, schedule)
    runs = (1 + len(precisions)) * len(staleness)
    order = np.random.default_rng(arguments.seed).permutation(table.rows)  # one for all: sorted rows mislead SGD
    data = ComparisonData(table.X[order], y[order], held_out)
    with _device(arguments) as device, _progress("comparing", runs * schedule.epochs) as advance:
        comparison = compare(
            data,
            precisions,
            schedule,
            staleness=staleness,
            device=device,
            title=title,
            on_epoch=advance,
        )
    record = comparison_record(comparison, name)
    _report(comparison_summary(comparison), record, arguments.out, lambda folder: draw(record, folder))


def _note_noisy(table: Dataset, precisions: Sequence[Precision], schedule: Schedule) -> None:
    """Say which precisions need smaller steps than the schedule that all share."""
    for precision in precisions:
        rate = suggest_learning_rate(table.X, schedule.batch_size, precision, loss=schedule.loss)
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


# --- levels --------------------------------------------------------------------------------------
def _levels(arguments: argparse.Namespace) -> None:
    fill(arguments, LEVELS)
    precision, out = Precision(arguments.bits), arguments.out
    if out is not None:
        _can_draw(out, precision)
    table, _ = _load(arguments)
    scaling = column_scaling(table.X)
    values, names = scaling.values(table.X), [table.feature_names[j] for j in scaling.active]
    with _progress("choosing levels", len(names), "feature") as advance:
        found = savings(values, precision.bits, advance)
    text = savings_summary(found, names, _name(arguments.source), table.rows)
    if out is not None:
        panels = [
            Panel(
                names[j],
                f"variance {found.uniform[j]:.3g}, optimal {found.optimal[j, -1]:.3g}",
                values[:, j],
                feature_levels(values[:, j], precision.bits),
            )
            for j in found.order[:SHOWN]
        ]
        title = f"{_name(arguments.source)}: uniform and optimal levels, {precision.bits} bits"
        with atomic_write(out) as part:
            levels_plot(panels, np.linspace(-1.0, 1.0, precision.levels), part, title)
        text += f"\n\nwritten to {out}"
    print(text)


def _can_draw(out: Path, precision: Precision) -> None:
    """Refuse what cannot be drawn, or written, before anything is computed."""
    if precision.bits > DRAWN_BITS:
        raise DataError(f"--out {out}: {precision.levels:,} levels crowd a plot: --bits {DRAWN_BITS} or less")
    _can_write(out)
    if out.suffix.lower() != ".png":
        raise DataError(f"--out {out}: the plot is a PNG: give a name that ends with .png")
    require_extra("matplotlib", "plotting (--out)")


def _can_write(out: Path) -> None:
    if out.is_dir() or not out.parent.is_dir():
        raise DataError(f"--out {out}: give the name of a file, in a folder that there is")


# --- train-ddp -----------------------------------------------------------------------------------
def _train_ddp(arguments: argparse.Namespace) -> None:
    _writable(arguments.out)
    require_extra("torch", "train-ddp", "'bitlane[torch]'")
    from .train_ddp import train_ddp

    summary, record = train_ddp(arguments)
    _report(summary, record, arguments.out, lambda folder: draw(record, folder))


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
    print(align_columns(cells, left=3))


def _datasets(_: argparse.Namespace) -> None:
    cells = [["data set", "task", "what", "from", "rows", "features"]]
    for known in list_datasets():
        place = location_of(known) or "set BITLANE_DATA"
        cells.append([known.name, known.task, known.about, place, f"{known.rows:,}", f"{known.features}"])
    print(align_columns(cells, left=4))


# --- reproduce -----------------------------------------------------------------------------------
def _reproduce(arguments: argparse.Namespace) -> None:
    out: Path = arguments.out or default_page(arguments.paper)
    _can_write(out)
    if out.suffix != ".md":
        raise DataError(f"--out {out}: the page is Markdown: give a name that ends with .md")
    if out.with_suffix("").exists() and not out.with_suffix("").is_dir():
        raise DataError(f"--out {out}: its plots go to {out.with_suffix('')}, which is not a folder")

    def say(line: str) -> None:
        print(f"bitlane: {line}", file=sys.stderr, flush=True)

    for path in reproduce(arguments.paper, out, arguments.quick, say):
        print(path)


# --- selftest ------------------------------------------------------------------------------------
def _selftest(arguments: argparse.Namespace) -> None:
    out: Path | None = arguments.out
    if out is not None:
        _can_write(out)
    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    with _device(arguments) as device:
        report = examine(device, seed, say=lambda line: print(line, flush=True))
    if out is not None:
        report.write(out)
        print(f"written to {out}")
    if not report.passed:
        raise SystemExit(1)


# --- bench-compress ------------------------------------------------------------------------------
def _bench_compress(arguments: argparse.Namespace) -> None:
    require_extra("torch", "bitlane bench-compress", "'bitlane[torch,fast]'")
    from bitlane.studies.compression.codec_speed import bench, table

    chosen = (arguments.codecs, arguments.size, arguments.threads, arguments.repeat, arguments.gpu)
    with _progress("measuring", len(arguments.codecs) * len(arguments.size), unit="codec") as advance:
        rows = bench(*chosen, advance or (lambda: None))
    print(table(rows))


# --- advise --------------------------------------------------------------------------------------
def _advise(arguments: argparse.Namespace) -> None:
    require_extra("torch", "bitlane advise", "'bitlane[torch]'")
    from bitlane.compress import advise
    from bitlane.compress.collectives import emulated_links as links

    layout, compute = advise.model_of(arguments.network, arguments.parameters)
    compute = compute if arguments.compute is None else arguments.compute
    model = links.parse_link(arguments.link) if arguments.link else advise.loopback(arguments.ranks)
    print(advise.advice_text(advise.advise(layout, compute, model, arguments.ranks)))


# --- what both trainings share -------------------------------------------------------------------
def _load(arguments: argparse.Namespace) -> tuple[Dataset, str]:
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
        table = read_dataset(source, arguments.target, impute=arguments.impute)
        found = guessed_task(table)
    if arguments.task != "auto":
        found = arguments.task
    if found == "regression" and table.y.dtype.kind != "f":
        raise DataError(f"target {table.target!r} holds words: only --task classification can learn them")
    return table, found


def guessed_task(table: Dataset) -> str:
    """ "classification" for words, two values, or few whole numbers that repeat; else "regression"."""
    if table.y.dtype.kind != "f":
        return "classification"
    values = np.unique(table.y)
    few = len(values) <= FEW_CLASSES and len(values) * 5 <= table.rows and bool(np.all(values % 1 == 0))
    return "classification" if len(values) == 2 or few else "regression"


def _name(source: str) -> str:
    return Path(source).name


@contextlib.contextmanager
def _progress(what: str, total: int, unit: str = "epoch") -> Iterator[Callable[..., None] | None]:
    """A bar on stderr where that is a terminal; gives what `on_epoch` and its like take."""
    if not sys.stderr.isatty():
        yield None
        return
    with require_extra("tqdm", "a progress bar").tqdm(total=total, desc=what, unit=unit, leave=False) as bar:
        yield lambda *_: bar.update()


_COMMANDS = {
    "advise": _advise,
    "train": _train,
    "compare": _compare,
    "levels": _levels,
    "train-ddp": _train_ddp,
    "plot": _plot,
    "devices": _devices,
    "datasets": _datasets,
    "reproduce": _reproduce,
    "selftest": _selftest,
    "bench-compress": _bench_compress,
}
