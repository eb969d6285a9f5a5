"""The bins of functional coverage, and how they are filled from what was seen of a run.

Modes and sizes come from the registers, read back from the RTL after the run. Bursts, stalls and the moments of errors,
aborts and resets come from the harness's monitor of the buses; error codes from the status register, through the
driver; clipped values from the reference, whose run has just been found equal to the RTL's, bit for bit.
"""

from __future__ import annotations

from collections import Counter

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.layout import BURST_BEATS, CHUNK, MAX_DIGITS, MAX_EPOCHS, MAX_ROWS
from bitlane.contract.modes import ErrorCode, Loss, Prox
from bitlane.contract.registers import REGISTERS
from bitlane_sim.rtl.harness import CHANNELS, Monitor

from .bins import Bins
from .clipping import CLIPPED, EFFECTS, SIDES
from .device import PHASES

LOSSES, PROXES = tuple(loss.name for loss in Loss), tuple(prox.name for prox in Prox)
STALENESS = ("fresh", "stale")
SHAPES = ("base", "base and draw", "draw")
BATCHES = ("one row", "one batch an epoch", "full last", "partial last")
TAILS = ("full", "partial")
GROUP_POINTS = ("last group of a batch, of the epoch", "rows of a partial group")  # with several rows_per_beat only
CHUNKS = ("1", "2", "3 to 7", "8 to 15", "16")
ERRORS = tuple(code.name for code in ErrorCode)
FAILS = {  # in which phases an error can be answered, or an abort taken
    **dict.fromkeys(("READ_SLAVE", "READ_DECODE"), PHASES[:4]),
    **dict.fromkeys(("WRITE_SLAVE", "WRITE_DECODE"), PHASES[1:]),
    "ABORTED": PHASES[:4],
}
ADDRESSES = ("base_address", "base_stride", "draw_address", "draw_stride", "model_in", "model_out", "trace")


def refused(config: AcceleratorConfig) -> dict[str, dict[str, int]]:
    """Registers and fields, and values that no run of this hardware may have, for every rule that refuses one."""
    most, rows = config.max_features, config.rows_per_beat
    singles = {
        "no features": ("features", 0),
        "features": ("features", most + 1),
        "no groups": ("groups", 0),
        "groups": ("groups", MAX_ROWS + 1),
        "no batch": ("batch_groups", 0),
        "batch": ("batch_groups", MAX_ROWS + 1),
        "no batch tail": ("batch_tail", 0),
        "batch tail": ("batch_tail", rows + 1),
        "no epoch tail": ("epoch_tail", 0),
        "epoch tail": ("epoch_tail", rows + 1),
        "no epochs": ("epochs", 0),
        "epochs": ("epochs", MAX_EPOCHS + 1),
        "no sets": ("draw_sets", 0),
        "digits": ("base_digits", MAX_DIGITS + 1),
        "decay below": ("decay", DECAY_RANGE[0] - 1),
        "decay above": ("decay", DECAY_RANGE[1] + 1),
        "loss": ("loss", max(Loss) + 1),
        "bounds": ("bounds", 0xFFFF_0000),
    }
    singles |= {f"{name} misaligned": (name, config.beat_bytes // 2) for name in ADDRESSES}
    beyond = [name for name in ADDRESSES if REGISTERS[name].bits > config.address_bits]
    singles |= {f"{name} beyond the port": (name, 1 << config.address_bits) for name in beyond}
    rules = {rule: {name: value} for rule, (name, value) in singles.items()}
    rules["no digits"] = {"base_digits": 0, "draws": 0}
    rules["two models"] = {"features": most, "base_digits": 1, "draws": 0, "staleness": 1}
    if config.max_chunks * MAX_DIGITS > config.max_row_words:
        rules["row words"] = {"features": most, "base_digits": MAX_DIGITS, "draws": 0}
    return rules


def declared(config: AcceleratorConfig) -> Bins:
    """All bins, empty, for this hardware."""
    rows_per_beat = config.rows_per_beat
    bins = Bins()
    bins.cross("loss, prox, staleness", LOSSES, PROXES, STALENESS)
    bins.declare("stored digits", (*range(1, MAX_DIGITS + 1),))
    bins.declare("base digits", (*range(MAX_DIGITS + 1),))
    bins.declare("digits read", SHAPES)
    bins.cross("stored digits, last batch", (*range(1, MAX_DIGITS + 1),), TAILS)
    bins.declare("batches", BATCHES)
    if rows_per_beat > 1:
        bins.cross(GROUP_POINTS[0], TAILS, TAILS)
        bins.declare(GROUP_POINTS[1], (*range(1, rows_per_beat),))
    bins.declare("last lane", (*range(CHUNK),))
    bins.declare("chunks", CHUNKS)
    bins.declare("sets", (1, 2, 3))
    bins.declare("epochs", ("one", "within the sets", "sets again"))
    bins.declare("snapshots", ("off", "on"))
    bins.declare("decay", ("off", "on"))
    bins.declare("class weights", ("equal", "different"))
    bins.cross("prox, last feature", PROXES[1:], ("bound", "free"))
    bins.cross("clipped", CLIPPED, SIDES)
    bins.declare("prox", EFFECTS)
    bins.declare("read burst", (*range(1, BURST_BEATS + 1),))
    bins.declare("write burst", ("chunk", "record"))
    bins.declare("burst ends at 4 KiB", ("read", "write"))
    bins.declare("stall", CHANNELS)
    bins.declare("end", ERRORS)
    bins.declare("error, phase", (f"{error} x {phase}" for error, phases in FAILS.items() for phase in phases))
    bins.declare("abort too late", ("draining",))
    bins.declare("reset", PHASES)
    bins.declare("refused", refused(config))
    bins.declare("registers", ("written in a run", "read in a run", "unknown"))
    return bins


def observe_modes(bins: Bins, registers: dict[str, int], config: AcceleratorConfig) -> None:
    """A run that ended well, from its registers and their fields."""
    r = registers
    prox, digits = Prox(r["prox"]).name, r["base_digits"] + r["draws"]
    tail, epoch_tail = r["batch_tail"], r["epoch_tail"]
    full, last = divmod(r["groups"], r["batch_groups"])
    partial = last != 0 or (full > 1 and epoch_tail < tail)
    chunks = -(-r["features"] // CHUNK)
    bins.hit("loss, prox, staleness", Loss(r["loss"]).name, prox, STALENESS[r["staleness"]])
    bins.hit("stored digits", digits)
    bins.hit("base digits", r["base_digits"])
    bins.hit("digits read", SHAPES[0 if not r["draws"] else 1 if r["base_digits"] else 2])
    bins.hit("stored digits, last batch", digits, TAILS[partial])
    if r["groups"] <= r["batch_groups"]:
        bins.hit("batches", "one batch an epoch")
    else:
        bins.hit("batches", "partial last" if partial else "full last")
    if r["batch_groups"] == tail == 1:
        bins.hit("batches", "one row")
    if config.rows_per_beat > 1:
        bins.hit(GROUP_POINTS[0], *(TAILS[rows < config.rows_per_beat] for rows in (tail, epoch_tail)))
        for rows in {tail, epoch_tail} - {config.rows_per_beat}:
            bins.hit(GROUP_POINTS[1], rows)
    bins.hit("last lane", (r["features"] - 1) % CHUNK)
    bins.hit("chunks", str(chunks) if chunks < 3 or chunks == 16 else CHUNKS[2 if chunks < 8 else 3])
    bins.hit("sets", r["draw_sets"])
    bins.hit(
        "epochs", "one" if r["epochs"] == 1 else "within the sets" if r["epochs"] <= r["draw_sets"] else "sets again"
    )
    bins.hit("snapshots", ("off", "on")[r["snapshots"]])
    bins.hit("decay", ("on", "off")[r["decay"] == NO_DECAY])
    bins.hit("class weights", ("equal", "different")[r["step"] != r["step_negative"]])
    if prox != Prox.NONE.name:
        bins.hit("prox, last feature", prox, ("bound", "free")[r["unpenalized_intercept"]])


def observe_values(bins: Bins, seen: Counter[tuple[str, str]]) -> None:
    """What the reference clipped, and what its prox did."""
    for (what, kind), count in seen.items():
        if what == "prox":
            bins.hit("prox", kind, times=count)
        else:
            bins.hit("clipped", what, kind, times=count)


def observe_bus(bins: Bins, monitor: Monitor, config: AcceleratorConfig) -> None:
    """Everything that a device has seen on its buses; once for each device."""
    for beats in range(1, BURST_BEATS + 1):
        bins.hit("read burst", beats, times=monitor.read_lengths[beats])
    bins.hit("write burst", "chunk", times=monitor.write_lengths[config.chunk_beats])
    bins.hit("write burst", "record", times=monitor.write_lengths[config.record_beats])
    bins.hit("burst ends at 4 KiB", "read", times=monitor.read_page_ends)
    bins.hit("burst ends at 4 KiB", "write", times=monitor.write_page_ends)
    for channel, cycles in monitor.stalls.items():
        bins.hit("stall", channel, times=cycles)
