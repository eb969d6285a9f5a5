"""What the accelerator and its host agree on: formats, layout constants, registers, error codes.

This is the one source of those facts. `bitlane.contract.registers` is the same file (a link), so the
RTL, the driver, the numpy reference, the simulator's harness and the documentation all read it.
It imports nothing outside the standard library, because a board has little else.
"""

from __future__ import annotations

from dataclasses import dataclass


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


MODE = (
    Field("base_digits", 0, 5, "radix-4 base digits of a feature, 0 to 16; with table lanes base bits, 1 to 3"),
    Field("draws", 5, 1, "1: a draw digit follows the base digits (double sampling); always with table lanes"),
    Field("staleness", 6, 1, "1: a batch reads the model as it was one batch earlier"),
    Field("unpenalized_intercept", 7, 1, "1: prox leaves the last feature alone (an intercept)"),
    Field("snapshots", 8, 1, "1: store the model after each epoch, 0: after the last"),
    Field("loss", 9, 2, "0 squares, 1 hinge, 2 logistic"),
    Field("prox", 11, 2, "at the end of a batch: 0 nothing, 1 L2, 2 L1, 3 box"),
    Field("batch_tail", 13, 4, "rows in the last group of a batch, 1 to port_bits / 64"),
    Field("epoch_tail", 17, 4, "rows in the last group of the epoch, likewise"),
)
CUTS = (
    Field("model_cut", 0, 5, "low bits of a master weight that dot products do not see, rounded at random"),
    Field("scaled_gradient_cut", 5, 5, "low bits of step * slopes that are left out, rounded at random"),
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
        (0x030, "random_rounding", 32, False, "1: there is random rounding"),
        (0x040, "features", 32, True, "features of a row"),
        (0x044, "groups", 32, True, "row groups of an epoch; a group is the rows of a beat"),
        (0x048, "mode", 21, True, "what is stored, and what is done with it", MODE),
        (0x050, "draw_sets", 32, True, "draw sets; epoch e reads set e mod sets"),
        (0x054, "epochs", 32, True, "epochs of this run"),
        (0x058, "batch_groups", 32, True, "row groups of a mini-batch; the last one of an epoch may be partial"),
        (0x060, "step", 21, True, "step / batch of rows whose label is 0 or more: mantissa | exponent << 16"),
        (0x064, "step_negative", 21, True, "the same for the other rows: class weights make a difference"),
        (0x068, "penalty_step", 21, True, "L2: shrinks a batch; L1: threshold a batch: mantissa | exponent << 16"),
        (0x06C, "decay", 17, True, "factor on steps and rate after each epoch, in 2**-16"),
        (0x070, "phase", 32, True, "shrink accumulator at the start of the run"),
        (0x074, "cuts", 10, True, "random rounding; 0 for none", CUTS),
        (0x078, "seed", 32, True, "of random rounding; grows with every batch"),
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
        (0x10C, "penalty_step_now", 21, False, "rate as decayed so far"),
        (0x110, "phase_now", 32, False, "shrink accumulator now"),
        (0x114, "seed_now", 32, False, "seed after the batches so far"),
        (0x118, "cycles", 64, False, "clock cycles from start to done"),
        (0x120, "beats", 64, False, "read beats accepted from memory"),
        (0x128, "stall_memory", 64, False, "cycles in which the next beat was not there yet"),
        (0x130, "stall_model", 64, False, "cycles in which a beat waited for an update"),
        (0x138, "saturations", 64, False, "values clipped: residuals, coefficients, weights"),
    ]
    return tuple(Register(name, offset, *rest) for offset, name, *rest in rows)  # type: ignore[arg-type]


REGISTERS: dict[str, Register] = {register.name: register for register in _table()}
# There with what they are of only: otherwise they read as 0, like no register.
TABLE_LANE_REGISTERS = ("level_slots",)
RANDOM_ROUNDING_REGISTERS = ("random_rounding", "cuts", "seed", "seed_now")
FIELDS = {field.name: (register, field) for register in REGISTERS.values() for field in register.fields}
