"""The coverpoints of a build, and how they are sampled from a run.

Modes and sizes come from the registers, read back from the RTL after the run. Bursts, stalls and the moments of errors,
aborts and resets come from the harness's monitor of the buses. Error codes come from the status register, through the
driver. Clipped and rounded values and the levels that samples choose come from the reference, after its run was found
equal to the RTL's, bit for bit.
"""

from __future__ import annotations

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import WEIGHT_EXPONENT
from bitlane.contract.layout import BURST_BEATS, CHUNK, MAX_DIGITS
from bitlane.contract.modes import ErrorCode, Loss, Prox
from bitlane_sim.rtl.harness import Monitor

from . import buses, ports, random_rounding, table_lanes
from .covergroup import Covergroup
from .illegal_registers import illegal_registers
from .reference_events import PROX_EFFECTS, Events
from .watched_device import PHASES

LOSSES, PROXES = tuple(loss.name for loss in Loss), tuple(prox.name for prox in Prox)
STALENESS = ("fresh", "stale")
SHAPES = ("base", "base and draw", "draw")
BATCHES = ("one row", "one batch an epoch", "full last", "partial last")
TAILS = ("full", "partial")
BEAT_POINTS = ("last beat of a batch, of the epoch", "rows of a partial beat")  # of builds with several rows a beat
SIDES = ("low", "high")
CLIPPED = ("z", "r", "s", "d", "master")
ERRORS = tuple(code.name for code in ErrorCode)
FAILS = {  # the phases in which an error can be answered, or an abort taken
    **dict.fromkeys(("READ_SLAVE", "READ_DECODE"), PHASES[:4]),
    **dict.fromkeys(("WRITE_SLAVE", "WRITE_DECODE"), PHASES[1:]),
    "ABORTED": PHASES[:4],
}


def declare(config: AcceleratorConfig) -> Covergroup:
    """Return all coverpoints of a build, empty."""
    group = Covergroup()
    group.cross("loss, prox, staleness", LOSSES, PROXES, STALENESS)
    if config.table_lanes:
        table_lanes.declare(group, config)
    else:
        group.declare("stored digits", (*range(1, MAX_DIGITS + 1),))
        group.declare("base digits", (*range(MAX_DIGITS + 1),))
        group.declare("digits read", SHAPES)
        group.cross("stored digits, last batch", (*range(1, MAX_DIGITS + 1),), TAILS)
    if config.random_rounding:
        random_rounding.declare(group, config)
    group.declare("batches", BATCHES)
    if config.rows_per_beat > 1:
        group.cross(BEAT_POINTS[0], TAILS, TAILS)
        group.declare(BEAT_POINTS[1], (*range(1, config.rows_per_beat),))
    group.declare("last lane", (*range(CHUNK),))
    group.declare("chunks", dict.fromkeys(chunks_class(each, config) for each in range(1, config.max_chunks + 1)))
    ports.declare(group, config)
    group.declare("draw sets", (1, 2, 3))
    group.declare("epochs", ("one", "within the draw sets", "draw sets again"))
    group.declare("snapshots", ("off", "on"))
    group.declare("decay", ("off", "on"))
    group.declare("class weights", ("equal", "different"))
    group.declare("weight exponent", (*range(WEIGHT_EXPONENT.minimum, WEIGHT_EXPONENT.maximum + 1),))
    group.cross("prox, last feature", PROXES[1:], ("penalized", "unpenalized"))
    group.cross("clipped", (*CLIPPED, *(table_lanes.CLIPPED if config.table_lanes else ())), SIDES)
    group.declare("prox", PROX_EFFECTS)
    group.declare("read burst", (*range(1, BURST_BEATS + 1),))
    group.declare("write burst", ("chunk", "record"))
    buses.declare(group)
    group.declare("end", ERRORS)
    group.declare("error, phase", (f"{error} x {phase}" for error, phases in FAILS.items() for phase in phases))
    group.declare("abort too late", ("draining",))
    group.declare("reset", PHASES)
    group.declare("refused", illegal_registers(config))
    group.declare("registers", ("written in a run", "read in a run", "unknown"))
    return group


def sample_registers(group: Covergroup, registers: dict[str, int], config: AcceleratorConfig) -> None:
    """Sample the registers and their fields after a run without an error."""
    r = registers
    prox = Prox(r["prox"]).name
    chunks = -(-r["features"] // config.chunk_features)
    is_partial = last_batch_is_partial(r)
    group.hit("loss, prox, staleness", Loss(r["loss"]).name, prox, STALENESS[r["staleness"]])
    if config.table_lanes:
        table_lanes.sample_registers(group, r, config, TAILS[is_partial])
    else:
        digits = r["base_digits"] + r["draws"]
        group.hit("stored digits", digits)
        group.hit("base digits", r["base_digits"])
        group.hit("digits read", SHAPES[0 if not r["draws"] else 1 if r["base_digits"] else 2])
        group.hit("stored digits, last batch", digits, TAILS[is_partial])
    if config.random_rounding:
        random_rounding.sample_registers(group, r, TAILS[is_partial])
    if r["groups"] <= r["batch_groups"]:
        group.hit("batches", "one batch an epoch")
    else:
        group.hit("batches", "partial last" if is_partial else "full last")
    if r["batch_groups"] == r["batch_tail"] == 1:
        group.hit("batches", "one row")
    if config.rows_per_beat > 1:
        tails = r["batch_tail"], r["epoch_tail"]
        group.hit(BEAT_POINTS[0], *(TAILS[rows < config.rows_per_beat] for rows in tails))
        for rows in {*tails} - {config.rows_per_beat}:
            group.hit(BEAT_POINTS[1], rows)
    group.hit("last lane", (r["features"] - 1) % CHUNK)
    group.hit("chunks", chunks_class(chunks, config))
    ports.sample_registers(group, r, config)
    group.hit("draw sets", r["draw_sets"])
    within = "within the draw sets" if r["epochs"] <= r["draw_sets"] else "draw sets again"
    group.hit("epochs", "one" if r["epochs"] == 1 else within)
    group.hit("snapshots", ("off", "on")[r["snapshots"]])
    group.hit("decay", ("on", "off")[r["decay"] == NO_DECAY])
    group.hit("class weights", ("equal", "different")[r["step"] != r["step_negative"]])
    exponent = r["weight_exponent"]
    group.hit("weight exponent", exponent - (exponent > WEIGHT_EXPONENT.maximum) * (1 << WEIGHT_EXPONENT.bits))
    if prox != Prox.NONE.name:
        group.hit("prox, last feature", prox, ("penalized", "unpenalized")[r["unpenalized_intercept"]])


def chunks_class(chunks: int, config: AcceleratorConfig) -> str:
    """Return the bin of a number of chunks: one, two, few, many, or all that the build holds."""
    if chunks < 3 or chunks == config.max_chunks:
        return str(chunks)
    return "3 to 7" if chunks < 8 else f"8 to {config.max_chunks - 1}"


def last_batch_is_partial(registers: dict[str, int]) -> bool:
    """Return whether the last batch of an epoch has fewer rows than the others."""
    full, last = divmod(registers["groups"], registers["batch_groups"])
    return last != 0 or (full > 1 and registers["epoch_tail"] < registers["batch_tail"])


def sample_reference(group: Covergroup, events: Events) -> None:
    """Sample what the reference did in a run."""
    for (coverpoint, *names), count in events.items():
        if count:
            group.hit(str(coverpoint), *names, times=count)


def sample_buses(group: Covergroup, monitor: Monitor, config: AcceleratorConfig) -> None:
    """Sample all that the monitor of a device has seen so far."""
    for beats in range(1, BURST_BEATS + 1):
        group.hit("read burst", beats, times=monitor.read_lengths[beats])
    group.hit("write burst", "chunk", times=monitor.write_lengths[config.chunk_beats])
    group.hit("write burst", "record", times=monitor.write_lengths[config.record_beats])
    buses.sample(group, monitor)
