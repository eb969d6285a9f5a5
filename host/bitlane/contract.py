"""What the accelerator and its host agree on: formats, layout constants, registers, error codes.

This is the one source of those facts. `bitlane_hw.contract` is the same file (a link), so the
RTL, the driver, the numpy reference, the simulator's harness and the documentation all read it.
It imports nothing outside the standard library, because a board has little else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

# --- memory layout -----------------------------------------------------------------------------
WORD_BITS = 64
WORD_BYTES = WORD_BITS // 8
CHUNK = 32  # features whose digits share one word
DIGIT_BITS = 2  # a radix-4 digit; 32 of them fill a word
MAX_DIGITS = 16  # 32 stored bits a feature
LABELS_PER_WORD = 4
BURST_WORDS = 16  # longest AXI burst; both Zynq families cut longer ones
CHUNK_MODEL_WORDS = CHUNK * 32 // WORD_BITS  # one chunk of master weights is one full burst
CHUNK_MODEL_BYTES = CHUNK_MODEL_WORDS * WORD_BYTES
TRACE_WORDS = 2  # an epoch's record: loss, cycles
TRACE_BYTES = TRACE_WORDS * WORD_BYTES


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
COEFFICIENT = Fixed(32, 29)  # step * (sum or difference of two residuals)
LOSS = Fixed(64, 32)

# A master weight is stored half a WEIGHT unit too high, so that cutting its low bits rounds.
MASTER_OFFSET = 1 << (MASTER.fraction - WEIGHT.fraction - 1)

STEP_FRACTION = 13  # step = mantissa * 2**-(STEP_FRACTION + exponent)
RATE_FRACTION = 16  # shrink rate = mantissa * 2**-(RATE_FRACTION + exponent)
DECAY_FRACTION = 16  # decay = register * 2**-DECAY_FRACTION, from 1/2 to 1
DECAY_RANGE = (1 << (DECAY_FRACTION - 1), 1 << DECAY_FRACTION)
MANTISSA_BITS = 16
EXPONENT_BITS = 5
SHRINK_SHIFTS = (8, 4)  # one shrink takes 2**-shift of a weight away; chosen by a register
MAX_ROWS = (1 << 24) - 1
MAX_EPOCHS = (1 << 16) - 1


# --- timing, in clock cycles ---------------------------------------------------------------------
MIN_ROW = 4  # from one row's last word to the next row's last word, at least
UPDATE_LATENCY = 23  # from a batch's last word to the first read of the updated model, one digit a feature


# --- registers ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Register:
    """One register of the AXI4-Lite map; a 64-bit one takes two words, the low one first."""

    name: str
    offset: int
    bits: int  # meaningful bits, at most 64
    writable: bool
    meaning: str

    @property
    def words(self) -> int:
        return 1 if self.bits <= 32 else 2


IDENTITY = 0x424C414E  # "BLAN"
VERSION = 0x0001_0000  # major << 16 | minor
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


def _table() -> tuple[Register, ...]:
    rows: list[tuple[int, str, int, bool, str]] = [
        (0x000, "identity", 32, False, "ASCII 'BLAN'"),
        (0x004, "version", 32, False, "major << 16 | minor of this map"),
        (0x008, "build", 32, False, "hash of the RTL sources and the configuration"),
        (0x00C, "max_features", 32, False, "features that the model memory holds"),
        (0x010, "max_row_words", 32, False, "longest row: chunks * digits"),
        (0x014, "port_bits", 32, False, "width of the memory port"),
        (0x018, "address_bits", 32, False, "width of an address on it"),
        (0x020, "control", 32, True, "write only: 1 start, 2 abort, 4 acknowledge done"),
        (0x024, "status", 32, False, "bit 0 busy, bit 1 done, bits 15..8 error code"),
        (0x028, "irq_enable", 1, True, "raise irq while done"),
        (0x040, "features", 32, True, "features of a row"),
        (0x044, "rows", 32, True, "rows of an epoch"),
        (0x048, "base_digits", 8, True, "radix-4 base digits of a feature, 0 to 16"),
        (0x04C, "draws", 1, True, "1: a draw digit follows the base digits (double sampling)"),
        (0x050, "sets", 32, True, "draw sets; epoch e reads set e mod sets"),
        (0x054, "epochs", 32, True, "epochs of this run"),
        (0x058, "batch", 32, True, "rows of a mini-batch; the last one of an epoch may be partial"),
        (0x05C, "step", 21, True, "step / batch: mantissa | exponent << 16"),
        (0x060, "rate", 21, True, "shrinks a batch: mantissa | exponent << 16"),
        (0x064, "decay", 17, True, "factor on step and rate after each epoch, in 2**-16"),
        (0x068, "shrink", 1, True, "what one shrink takes: 0: 2**-8 of a weight, 1: 2**-4"),
        (0x06C, "snapshots", 1, True, "1: store the model after each epoch, 0: after the last"),
        (0x070, "phase", 32, True, "shrink accumulator at the start of the run"),
        (0x080, "base_address", 64, True, "labels and base digits of set 0; multiple of 8"),
        (0x088, "base_stride", 64, True, "bytes from one set's base to the next; 0 shares it"),
        (0x090, "draw_address", 64, True, "draw digits of set 0; multiple of 8"),
        (0x098, "draw_stride", 64, True, "bytes from one set's draws to the next"),
        (0x0A0, "model_in", 64, True, "initial model; multiple of 128"),
        (0x0A8, "model_out", 64, True, "models stored; multiple of 128"),
        (0x0B0, "trace", 64, True, "16 bytes an epoch: loss, cycles; multiple of 16"),
        (0x100, "epoch", 32, False, "epochs ended in this run"),
        (0x104, "step_now", 21, False, "step as decayed so far"),
        (0x108, "rate_now", 21, False, "rate as decayed so far"),
        (0x10C, "phase_now", 32, False, "shrink accumulator now"),
        (0x110, "cycles", 64, False, "clock cycles from start to done"),
        (0x118, "beats", 64, False, "read beats accepted from memory"),
        (0x120, "stall_memory", 64, False, "cycles in which the next word was not there yet"),
        (0x128, "stall_model", 64, False, "cycles in which a word waited for an update"),
        (0x130, "saturations", 64, False, "values clipped: residuals, coefficients, weights"),
    ]
    return tuple(Register(name, offset, *rest) for offset, name, *rest in rows)  # type: ignore[arg-type]


REGISTERS: dict[str, Register] = {register.name: register for register in _table()}
