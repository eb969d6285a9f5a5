"""`bitlane plan`: what a training takes on a board, and whether a build fits its chip, before anything is built."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from bitlane.contract.encoding import ValueType
from bitlane.contract.layout import BEAT_WIDTHS, DEFAULT_LEVEL_SLOTS, PORTS, SHARDS
from bitlane.contract.precision import FULL_BITS, SAMPLINGS
from bitlane.devices.pynq.board import SPARE_BYTES
from bitlane.errors import DataError, DeviceError
from bitlane.levels.codebooks import CHOICES, choose_precision
from bitlane.planning.area import estimate_area, luts_of_parts
from bitlane.planning.chips import CHIPS, CMA_BYTES, BoardBuild, board_named
from bitlane.planning.cpu_time import CpuTime, measure_cpu
from bitlane.planning.work import TrainingSize, WorkEstimate, estimate_work
from bitlane.quantization.ranges import TableRanges
from bitlane.support.text import LINE, align_columns, fill_lines
from bitlane.training.losses import LOSSES
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions
from bitlane.training.table_scaling import scaling_of

from .argument_types import positive
from .command import Command
from .companions import Companion, check_companions, given_options
from .plan_solver import SOLVER_DEFAULTS, add_solver_arguments, plan_solver
from .source import SOURCE_DEFAULTS, add_source_arguments, load_source, source_name
from .summaries import SUMMARIES
from .training_arguments import DEFAULTS, add_outputs_argument, add_schedule_arguments, derive_epochs, fill

PLAN_DEFAULTS: dict[str, Any] = {
    **SOURCE_DEFAULTS,
    **{name: DEFAULTS[name] for name in ("task", "draws", "epochs", "batch_size", "outputs")},
    **SOLVER_DEFAULTS,
    "loss": None,  # squared_error on a board, that of the estimator with a solver
    "source": None,
    "rows": None,
    "features": None,
    "bits": 4,
    "sampling": None,
    "levels": "uniform",
    "staleness": 0,
    "board": "pynq-z2",
    "width": None,
    "clock": None,
    "level_slots": None,
    "encoder": 0,
    "shards": 1,
    "ports": 1,
    "values": "float32",
    "random_rounding": False,
    "json": False,
}
OF_BOARDS = (
    *("draws", "epochs", "batch_size", "outputs", "bits", "sampling", "levels", "staleness", "board", "width", "clock"),
    *("level_slots", "encoder", "shards", "ports", "values", "random_rounding"),
)
COMPANIONS = (
    Companion(("penalty", "alpha", "models"), "--solver", lambda given: given.solver is not None),
    Companion(OF_BOARDS, "a plan for SGD on a board: omit --solver", lambda given: given.solver is None),
)
VALUES = {kind.name.lower(): kind for kind in ValueType}
RESOURCES = {"lut": "LUT", "ff": "flip-flops", "bram36": "BRAM36", "dsp": "DSP"}
MIB = 1 << 20


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source_arguments(parser, optional=True)
    add_schedule_arguments(parser, f"{DEFAULTS['loss']}; with --solver that of the task", (*LOSSES, "squared_hinge"))
    add_outputs_argument(parser)
    add = parser.add_argument
    add("--rows", type=positive, help="rows, instead of a file")
    add("--features", type=positive, help="features of a row, instead of a file")
    add("--bits", type=positive, help="stored bits of a feature: even, 2 to 32, or 3 or 5 (default: 4)")
    add("--sampling", choices=SAMPLINGS, help="how samples are rounded (default: double; full for 32 bits)")
    add("--levels", choices=CHOICES, help="uniform or optimal (default: uniform)")
    add("--staleness", type=int, choices=[0, 1], help="age of the weights in batches, 0 or 1 (default: 0)")
    add("--board", help=f"{', '.join(map(str.lower, CHIPS))} (default: pynq-z2)")
    add(
        "--width",
        type=int,
        choices=BEAT_WIDTHS,
        help="bits of all memory ports together (default: that of the board's bitstream)",
    )
    add("--clock", type=_mhz, metavar="MHZ", help="clock in MHz (default: that of the board's bitstream)")
    add(
        "--level-slots",
        type=int,
        nargs="?",
        const=DEFAULT_LEVEL_SLOTS,
        metavar="SLOTS",
        help="a build with table lanes of SLOTS levels each (default: digit lanes; without a number "
        f"{DEFAULT_LEVEL_SLOTS}; tables for levels that need them)",
    )
    add("--encoder", type=int, metavar="SETS", help="a build whose encoder writes up to SETS draw sets (default: none)")
    add("--shards", type=int, choices=SHARDS, help="data paths side by side, each with 32 features (default: 1)")
    add("--ports", type=int, choices=PORTS, help="memory ports, each with a part of the width (default: 1)")
    add("--values", choices=list(VALUES), help="type of the values that the encoder reads (default: float32)")
    add("--random-rounding", action="store_true", help="a build with random rounding (default: without)")
    add("--json", action="store_true", help="print one JSON object")
    add_solver_arguments(parser)


def _mhz(text: str) -> float:
    value = float(text)
    if not 0 < value < 10_000:
        raise argparse.ArgumentTypeError(f"{text} is not a clock in MHz")
    return value


def _run(arguments: argparse.Namespace) -> None:
    given = given_options(arguments)
    fill(arguments, PLAN_DEFAULTS)
    check_companions(arguments, given, COMPANIONS)
    if arguments.solver is not None:
        plan_solver(arguments)
        return
    arguments.loss = arguments.loss or DEFAULTS["loss"]
    if arguments.loss not in LOSSES:
        raise DataError(f"--loss {arguments.loss} needs --solver: no board computes it")
    options = _options(arguments)
    slots = options.precision.level_slots if arguments.level_slots is None else arguments.level_slots
    build = BoardBuild.of(
        board_named(arguments.board),
        arguments.width,
        arguments.clock,
        outputs=arguments.outputs,
        level_slots=slots,
        random_rounding=arguments.random_rounding,
        encoder=arguments.encoder,
        shards=arguments.shards,
        ports=arguments.ports,
    )
    title, size = _size(arguments, options)
    options = replace(options, epochs=derive_epochs(arguments, size.rows))
    work = estimate_work(size, options, build.config, CMA_BYTES - SPARE_BYTES, snapshots=True)
    try:
        cpu = measure_cpu(work.geometry, build.config, options.staleness)
    except DeviceError:  # without a C compiler
        cpu = None
    record = {
        "data": {"name": title, "rows": size.rows, "features": size.features, "targets": size.targets},
        "training": _training_record(options),
        "board": {"name": build.board.name, "chip": build.board.chip.name, "bitstream": build.board.bitstream},
        "build": asdict(build.config),
        "clock_mhz": build.clock_mhz,
        "accelerator": _work_record(work, build),
        "cpu": None if cpu is None else _cpu_record(cpu, work, options),
        "area": _area_record(build),
    }
    print(json.dumps(record, indent=1) if arguments.json else _text(record))


COMMAND = Command(
    "plan",
    SUMMARIES["plan"],
    _add_arguments,
    _run,
    description="Predict what a training takes on a board before anything is trained or built: cycles, time, bytes "
    "read, buffers, and whether the build fits the chip. Cycles are those of the hardware on a memory that never "
    "stalls. The time of this machine's processor is measured on some rows of random samples. With --solver, predict "
    "what a fit of LinearRegressor or LinearClassifier takes on this machine: the solver, time, reads and bytes, "
    "measured on some of the rows.",
    suppress_defaults=True,
)


def _options(arguments: argparse.Namespace) -> TrainingOptions:
    """Return the options of the training, but for its epochs, which may follow from the rows."""
    sampling = arguments.sampling or ("full" if arguments.bits == FULL_BITS else "double")
    return TrainingOptions(
        precision=choose_precision(arguments.bits, sampling, arguments.levels),
        objective=Objective(arguments.loss),
        levels=arguments.levels,
        draws=arguments.draws,
        batch_size=arguments.batch_size,
        staleness=arguments.staleness,
    )


def _size(arguments: argparse.Namespace, options: TrainingOptions) -> tuple[str, TrainingSize]:
    """Return the name of the data and its size: that of a file or a data set, or the given numbers."""
    values = VALUES[arguments.values] if arguments.encoder else None
    numbers = arguments.rows, arguments.features
    if arguments.source is None:
        if None in numbers:
            raise DataError("give a file, the name of a data set, or both --rows and --features")
        return "", TrainingSize(arguments.rows, arguments.features + options.objective.margins, 1, values)
    if numbers != (None, None):
        raise DataError(f"{arguments.source} has its own rows and features: omit --rows and --features")
    table, task = load_source(arguments)
    classes = np.unique(table.y) if task == "classification" else np.zeros(1)
    targets = len(classes) if len(classes) > 2 else 1
    labels = table.y[:, None] if task == "regression" else np.ones((table.rows, 1))
    stored = scaling_of(TableRanges.of(table.X, labels), options).stored_features
    return source_name(arguments.source), TrainingSize(table.rows, stored, targets, values)


def _training_record(options: TrainingOptions) -> dict[str, Any]:
    precision = options.precision
    return {
        "bits": precision.bits,
        "sampling": precision.sampling,
        "levels": options.levels,
        "loss": options.objective.loss,
        "batch_size": options.batch_size,
        "epochs": options.epochs,
        "draw_sets": options.draw_sets,
        "staleness": options.staleness,
    }


def _work_record(work: WorkEstimate, build: BoardBuild) -> dict[str, Any]:
    return {
        "passes": work.passes,
        "launches": work.launches,
        "cycles": work.cycles,
        "encoding_cycles": work.encoding_cycles,
        "seconds": build.seconds(work.cycles + work.encoding_cycles),
        "bytes_read": work.bytes_read,
        "bytes_per_second": work.bytes_read / build.seconds(work.cycles),
        "memory_bytes_per_second": build.board.memory_bytes,
        "buffer_bytes": work.buffer_bytes,
        "buffer_bytes_at_once": work.buffer_bytes_at_once,
        "cma_bytes": CMA_BYTES,
    }


def _cpu_record(cpu: CpuTime, work: WorkEstimate, options: TrainingOptions) -> dict[str, Any]:
    seconds = cpu.epoch_seconds * options.epochs * work.passes
    return {"seconds": seconds, "measured_rows": cpu.measured_rows}


def _area_record(build: BoardBuild) -> dict[str, Any] | None:
    area, board = estimate_area(build.config), build.board
    if area is None:
        return None
    chip, counts = asdict(board.chip.area), asdict(area.area)
    resources = {
        name: {"estimate": counts[name], "largest_error": area.largest_errors[name], "chip": chip[name]}
        for name in counts
    }
    return {
        "builds": area.builds,
        "resources": resources,
        "fits": area.fits(board.chip.area),
        "lut_of_a_further": luts_of_parts(),
    }


def _text(record: dict[str, Any]) -> str:
    """Return the record as text of at most 80 columns."""
    data, training, area = record["data"], record["training"], record["area"]
    models = f", {data['targets']} models" if data["targets"] > 1 else ""
    words = (
        f"{data['name'] + ': ' if data['name'] else ''}{data['rows']:,} rows of {data['features']:,} stored "
        f"features{models}; {training['bits']} bits ({training['sampling']}), batches of {training['batch_size']}, "
        f"{training['epochs']} epochs, {training['draw_sets']} draw sets"
    )
    return "\n".join([fill_lines(words), "", *_time_lines(record), "", _area_text(area, record["board"]["chip"])])


def _area_text(area: dict[str, Any] | None, chip: str) -> str:
    """Return the table of the area, and what its error means."""
    if area is None:
        return "The area is unknown: no build with these options was synthesised."
    cells = [[chip, "estimate", "largest error", "chip has", "used"]]
    for key, name in RESOURCES.items():
        one = area["resources"][key]
        used = _percent(one["estimate"] / one["chip"])
        cells.append([name, f"{one['estimate']:,.0f}", f"{100 * one['largest_error']:.1f} %", f"{one['chip']:,}", used])
    note = (
        f"Fits the chip: {area['fits']}. The estimate is a fit to {area['builds']} synthesised builds; the largest "
        "error is that of a build which the fit has not seen. It leaves out options that a single build has."
    )
    parts = ", ".join(f"a further {name} {luts:,.0f}" for name, luts in area["lut_of_a_further"].items())
    return f"{align_columns(cells)}\n{fill_lines(note)}\n{fill_lines(f'LUT of parts: {parts}.')}"


def _time_lines(record: dict[str, Any]) -> list[str]:
    """Return the table of times and sizes: what, value, and a note."""
    board, build, work, cpu = record["board"], record["build"], record["accelerator"], record["cpu"]
    rate, limit = work["bytes_per_second"], work["memory_bytes_per_second"]
    share = f", {_percent(rate / limit)} of the board's" if limit else ""
    encoder = [("cycles of the encoder", f"{work['encoding_cycles']:,}", "at least")] if work["encoding_cycles"] else []
    lines = [
        (
            "cycles",
            f"{work['cycles']:,}",
            f"{_count(work['launches'], 'launch', 'es')}, {_count(work['passes'], 'pass', 'es')}",
        ),
        *encoder,
        ("time", f"{work['seconds']:,.3g} s", "without memory stalls and host encoding"),
        ("read from memory", f"{work['bytes_read'] / 1e6:,.1f} MB", f"{rate / 1e9:.2f} GB/s{share}"),
        (
            "buffers",
            f"{work['buffer_bytes'] / MIB:,.1f} MiB",
            f"of the {work['cma_bytes'] // MIB} MiB of a PYNQ image (CMA)",
        ),
        ("this machine, device cpu", "", "not measured: there is no C compiler")
        if cpu is None
        else (
            "this machine, device cpu",
            f"{cpu['seconds']:,.3g} s",
            f"measured on {cpu['measured_rows']:,} random rows",
        ),
    ]
    return [
        f"{board['name']}, {build['width']} bits at {record['clock_mhz']:g} MHz",
        "-" * LINE,
        *(f"{what:24} {value:>14}  {note}".rstrip() for what, value, note in lines),
    ]


def _count(number: int, noun: str, plural: str) -> str:
    return f"{number:,} {noun}{plural if number != 1 else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
