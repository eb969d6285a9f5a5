"""What the accelerator and its host agree on: formats, layout constants, registers, error codes.

This is the one source of those facts. `bitlane_hw.contract` is the same file (a link), so the
RTL, the driver, the numpy reference, the simulator's harness and the documentation all read it.
It imports nothing outside the standard library, because a board has little else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

# --- memory layout -----------------------------------------------------------------------------
WORD_BITS = 64
WORD_BYTES = WORD_BITS // 8
PORT_WIDTHS = (64, 128, 256, 512)  # a beat is 1, 2, 4 or 8 words side by side, its columns, each of a row of its own
CHUNK = 32  # features whose digits share one word
DIGIT_BITS = 2  # a radix-4 digit; 32 of them fill a word
MAX_DIGITS = 16  # 32 stored bits a feature
TABLE_BITS = (1, 2, 3)  # base bits of a feature whose levels are in a table: 3, 5 or 9 levels
DEFAULT_LEVEL_SLOTS = 4096  # of a build with table lanes: 16,384 features of 5 levels
LABELS_PER_WORD = 4
BURST_BEATS = 16  # longest AXI burst; both Zynq families cut longer ones
CHUNK_MODEL_WORDS = CHUNK * 32 // WORD_BITS
CHUNK_MODEL_BYTES = CHUNK_MODEL_WORDS * WORD_BYTES
MAX_OUTPUTS = 15  # their losses and the cycles fit a record of 16 words


def level_count(base_bits: int) -> int:
    """Levels of a feature in a table of so many base bits."""
    return (1 << base_bits) + 1


def level_slots(base_bits: int) -> int:
    """Places that a chunk's levels take in a lane's table: a power of two."""
    return 2 << base_bits


def record_words(outputs: int, columns: int) -> int:
    """Words of an epoch's trace record: the cycles, each output's loss, zeros up to a power of two and a whole beat."""
    return max(1 << outputs.bit_length(), columns)


# --- number formats ----------------------------------------------------------------------------
@dataclass(frozen=True)
class Fixed:
    """A signed two's complement number of `bits` bits, of which `fraction` are behind the point."""

    bits: int
    fraction: int

    @property
    def minimum(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def maximum(self) -> int:
        return (1 << (self.bits - 1)) - 1


LABEL = Fixed(16, 15)
WEIGHT = Fixed(24, 20)  # what the dot product reads
MASTER = Fixed(32, 28)  # what the updates accumulate in
RESIDUAL = Fixed(24, 20)
COEFFICIENT = Fixed(32, 29)  # step * (sum or difference of two slopes)
LOSS = Fixed(64, 32)
BOUND = Fixed(16, 12)  # the ends of a box for weights
LEVEL = Fixed(18, 16)  # of a table, stored as 32 bits
LEVEL_COEFFICIENT = Fixed(25, 23)  # table lanes: twice step * slope, what a level is multiplied with

# What a weight begins with below the bits that the dot product reads: half of their unit.
MASTER_OFFSET = 1 << (MASTER.fraction - WEIGHT.fraction - 1)

STEP_FRACTION = 13  # step = mantissa * 2**-(STEP_FRACTION + exponent)
RATE_FRACTION = 16  # shrink rate = mantissa * 2**-(RATE_FRACTION + exponent)
DECAY_FRACTION = 16  # decay = register * 2**-DECAY_FRACTION, from 1/2 to 1
DECAY_RANGE = (1 << (DECAY_FRACTION - 1), 1 << DECAY_FRACTION)
MANTISSA_BITS = 16
EXPONENT_BITS = 5
SHRINK_SHIFT = 6  # one shrink takes 2**-6 of a weight away
MAX_ROWS = (1 << 24) - 1
MAX_EPOCHS = (1 << 16) - 1


class Loss(IntEnum):
    """What the scalar stage minimises; z is the dot product, y the label (its sign alone but for SQUARES)."""

    SQUARES = 0  # 1/2 (z - y)**2; with labels -1 and 1 this is LS-SVM
    HINGE = 1  # max(0, 1 - y z)
    LOGISTIC = 2  # log(1 + exp(-y z))


class Prox(IntEnum):
    """What is done to the weights at the end of a batch."""

    NONE = 0
    L2 = 1  # shrink by 2**-SHRINK_SHIFT whenever the phase carries
    L1 = 2  # soft threshold by the rate
    BOX = 3  # clip to the bounds


# --- the logistic table ----------------------------------------------------------------------------
TABLE_ADDRESS_BITS = 10  # cells of 2**-7 from 0 to 8, each with the values at its middle
TABLE = Fixed(18, 18)  # unsigned


def logistic_table() -> list[tuple[int, int]]:
    """For each cell u: sigmoid(-u) and log(1 + exp(-u)) at its middle, in units of 2**-18.

    Off by at most 2**-10 and 2**-9 inside a cell, and by sigmoid(-8) = 3.4e-4 where a dot product is clipped at 8.
    """
    cell = (RESIDUAL.maximum + 1) / (1 << RESIDUAL.fraction) / (1 << TABLE_ADDRESS_BITS)
    middles = [(i + 0.5) * cell for i in range(1 << TABLE_ADDRESS_BITS)]
    unit = 1 << TABLE.fraction
    return [(round(unit / (1 + math.exp(u))), round(unit * math.log1p(math.exp(-u)))) for u in middles]


# --- timing, in clock cycles ---------------------------------------------------------------------
ROW_GAP = 2  # rows' last words come at least (digits + ROW_GAP) cycles after one another
DRAW_CYCLES = 2  # that a draw word takes table lanes: a product with each of the two levels drawn


def update_latency(columns: int, table: bool = False) -> int:
    """From a batch's last beat to the first read of the updated model, one digit a feature; each further one adds 1.

    table: of table lanes, where the words of a first chunk count as its digits, half digits too: 2, 2 or 3 of them.
    """
    return (28 if table else 20) + (columns - 1).bit_length()


# --- registers ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Field:
    """Some bits of a register: `bits` of them from bit `low` on."""

    name: str
    low: int
    bits: int
    meaning: str


@dataclass(frozen=True)
class Register:
    """One register of the AXI4-Lite map; a 64-bit one takes two words, the low one first."""

    name: str
    offset: int
    bits: int  # meaningful bits, at most 64
    writable: bool
    meaning: str
    fields: tuple[Field, ...] = ()

    @property
    def words(self) -> int:
        return 1 if self.bits <= 32 else 2

    def pack(self, values: dict[str, int]) -> int:
        """The register's value, of all its fields' values."""
        return sum(values[field.name] << field.low for field in self.fields)

    def unpack(self, value: int) -> dict[str, int]:
        """Its fields' values, by name."""
        return {field.name: value >> field.low & (1 << field.bits) - 1 for field in self.fields}


IDENTITY = 0x424C414E  # "BLAN"
VERSION = 0x0003_0000  # major << 16 | minor
VLNV = f"bitlane.org:bitlane:accelerator:{VERSION >> 16}.{VERSION & 0xFFFF}"  # vendor:library:name:version of the IP
CONTROL_START = 1 << 0
CONTROL_ABORT = 1 << 1
CONTROL_ACKNOWLEDGE = 1 << 2
STATUS_BUSY = 1 << 0
STATUS_DONE = 1 << 1
STATUS_ERROR_SHIFT = 8


class ErrorCode(IntEnum):
    """Why a run ended; STATUS bits 15..8."""

    NONE = 0
    CONFIGURATION = 1
    READ_SLAVE = 2
    READ_DECODE = 3
    WRITE_SLAVE = 4
    WRITE_DECODE = 5
    ABORTED = 6


MODE = (
    Field("base_digits", 0, 5, "radix-4 base digits of a feature, 0 to 16; with table lanes base bits, 1 to 3"),
    Field("draws", 5, 1, "1: a draw digit follows the base digits (double sampling); always with table lanes"),
    Field("staleness", 6, 1, "1: a batch reads the model as it was one batch earlier"),
    Field("free", 7, 1, "1: prox leaves the last feature alone (an intercept)"),
    Field("snapshots", 8, 1, "1: store the model after each epoch, 0: after the last"),
    Field("loss", 9, 2, "0 squares, 1 hinge, 2 logistic"),
    Field("prox", 11, 2, "at the end of a batch: 0 nothing, 1 L2, 2 L1, 3 box"),
    Field("batch_tail", 13, 4, "rows in the last group of a batch, 1 to port_bits / 64"),
    Field("epoch_tail", 17, 4, "rows in the last group of the epoch, likewise"),
)


def _table() -> tuple[Register, ...]:
    rows: list[tuple[int, str, int, bool, str] | tuple[int, str, int, bool, str, tuple[Field, ...]]] = [
        (0x000, "identity", 32, False, "ASCII 'BLAN'"),
        (0x004, "version", 32, False, "major << 16 | minor of this map"),
        (0x008, "build", 32, False, "hash of the RTL sources and the configuration"),
        (0x00C, "max_features", 32, False, "features that the model memory holds; half as many with staleness 1"),
        (0x010, "max_row_words", 32, False, "longest row: chunks * digits"),
        (0x014, "port_bits", 32, False, "width of the memory port: a beat; 64 for each row side by side"),
        (0x018, "address_bits", 32, False, "width of an address on it"),
        (0x01C, "outputs", 32, False, "models trained at a time"),
        (
            0x02C,
            "level_slots",
            32,
            False,
            "levels that a table lane holds, 2 << base bits a chunk; 0: digit lanes",
        ),
        (0x020, "control", 32, True, "write only: 1 start, 2 abort, 4 acknowledge done"),
        (0x024, "status", 32, False, "bit 0 busy, bit 1 done, bits 15..8 error code"),
        (0x028, "irq_enable", 1, True, "raise irq while done"),
        (0x040, "features", 32, True, "features of a row"),
        (0x044, "groups", 32, True, "row groups of an epoch; a group is the rows of a beat"),
        (0x048, "mode", 21, True, "what is stored, and what is done with it", MODE),
        (0x050, "sets", 32, True, "draw sets; epoch e reads set e mod sets"),
        (0x054, "epochs", 32, True, "epochs of this run"),
        (0x058, "batch_groups", 32, True, "row groups of a mini-batch; the last one of an epoch may be partial"),
        (0x060, "step", 21, True, "step / batch of rows whose label is 0 or more: mantissa | exponent << 16"),
        (0x064, "step_negative", 21, True, "the same for the other rows: class weights make a difference"),
        (0x068, "rate", 21, True, "L2: shrinks a batch; L1: threshold a batch: mantissa | exponent << 16"),
        (0x06C, "decay", 17, True, "factor on steps and rate after each epoch, in 2**-16"),
        (0x070, "phase", 32, True, "shrink accumulator at the start of the run"),
        (0x07C, "bounds", 32, True, "of the box, in 2**-12: low | high << 16"),
        (0x0A0, "base_address", 64, True, "labels and base digits of set 0; multiple of a beat"),
        (0x0A8, "base_stride", 32, True, "bytes from one set's base to the next; 0 shares it"),
        (0x0B0, "draw_address", 64, True, "draw digits of set 0; multiple of a beat"),
        (0x0B8, "draw_stride", 32, True, "bytes from one set's draws to the next"),
        (0x0C0, "model_in", 64, True, "initial models; multiple of 128"),
        (0x0C8, "model_out", 64, True, "models stored; multiple of 128"),
        (0x0D0, "trace", 64, True, "a record an epoch: cycles, losses; multiple of a record"),
        (0x100, "epoch", 32, False, "epochs ended in this run"),
        (0x104, "step_now", 21, False, "step as decayed so far"),
        (0x108, "step_negative_now", 21, False, "step_negative as decayed so far"),
        (0x10C, "rate_now", 21, False, "rate as decayed so far"),
        (0x110, "phase_now", 32, False, "shrink accumulator now"),
        (0x118, "cycles", 64, False, "clock cycles from start to done"),
        (0x120, "beats", 64, False, "read beats accepted from memory"),
        (0x128, "stall_memory", 64, False, "cycles in which the next beat was not there yet"),
        (0x130, "stall_model", 64, False, "cycles in which a beat waited for an update"),
        (0x138, "saturations", 64, False, "values clipped: residuals, coefficients, weights"),
    ]
    return tuple(Register(name, offset, *rest) for offset, name, *rest in rows)  # type: ignore[arg-type]


REGISTERS: dict[str, Register] = {register.name: register for register in _table()}
TABLE_REGISTERS = ("level_slots",)  # there with table lanes only: without them they read as 0, like no register
FIELDS = {field.name: (register, field) for register in REGISTERS.values() for field in register.fields}
