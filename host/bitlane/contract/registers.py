"""The register map of the accelerator: the single source for the RTL, the driver, the simulators and the documentation.

It imports only the standard library, because a board has little more.
"""

from __future__ import annotations

from dataclasses import dataclass

from .layout import PORTS


@dataclass(frozen=True)
class Field:
    """A field of a register.

    Attributes
    ----------
    name : str
        Name of the field.
    low : int
        Its lowest bit.
    bits : int
        Its width.
    meaning : str
        Meaning, in one line.
    """

    name: str
    low: int
    bits: int
    meaning: str


@dataclass(frozen=True)
class Register:
    """A register of the AXI4-Lite map.

    Attributes
    ----------
    name : str
        Name of the register.
    offset : int
        Byte offset. A register of more than 32 bits has two words, the low word first.
    bits : int
        Meaningful bits, at most 64.
    writable : bool
        Whether the host can write it.
    meaning : str
        Meaning, in one line.
    fields : tuple of Field
        Its fields; empty if it has none.
    """

    name: str
    offset: int
    bits: int
    writable: bool
    meaning: str
    fields: tuple[Field, ...] = ()

    @property
    def words(self) -> int:
        """Number of 32-bit words."""
        return 1 if self.bits <= 32 else 2

    def pack(self, values: dict[str, int]) -> int:
        """Return the value of the register, given the values of all its fields by name."""
        return sum(values[field.name] << field.low for field in self.fields)

    def unpack(self, value: int) -> dict[str, int]:
        """Return the values of the fields, by name."""
        return {field.name: value >> field.low & (1 << field.bits) - 1 for field in self.fields}


IDENTITY = 0x424C414E  # "BLAN"
VERSION = 0x0004_0000  # major << 16 | minor
VLNV = f"bitlane.org:bitlane:accelerator:{VERSION >> 16}.{VERSION & 0xFFFF}"  # vendor:library:name:version of the IP
CONTROL_START = 1 << 0
CONTROL_ABORT = 1 << 1
CONTROL_ACKNOWLEDGE = 1 << 2
CONTROL_ENCODE = 1 << 3
STATUS_BUSY = 1 << 0
STATUS_DONE = 1 << 1
STATUS_ERROR_SHIFT = 8


MODE = (
    Field("base_digits", 0, 5, "radix-4 base digits of a feature, 0 to 16; with table lanes: base bits, 1 to 3"),
    Field("draws", 5, 1, "1: a draw digit follows the base digits (double sampling); always with table lanes"),
    Field("staleness", 6, 1, "1: the model that a batch reads is one batch older"),
    Field("unpenalized_intercept", 7, 1, "1: prox skips the last feature (an intercept)"),
    Field("snapshots", 8, 1, "1: store the model after each epoch; 0: only after the last one"),
    Field("loss", 9, 2, "0 squares, 1 hinge, 2 logistic"),
    Field("prox", 11, 2, "proximal operator at the end of a batch: 0 none, 1 L2, 2 L1, 3 box"),
    Field("batch_tail", 13, 4, "rows in the last group of a batch, 1 to port_bits / 64"),
    Field("epoch_tail", 17, 4, "rows in the last group of an epoch, 1 to port_bits / 64"),
    Field("weight_exponent", 21, 4, "weights count 2**weight_exponent times: -8 to 7, two's complement"),
)
ENCODE = (
    Field("value_type", 0, 2, "type of the raw values: 0 uint8, 1 int16, 2 float32"),
    Field("encode_base", 2, 1, "1: write labels and base words to base_address"),
    Field("encode_sets", 3, 4, "draw sets to write, 0 to encoder: set i to draw_address + i * draw_stride"),
    Field("encode_first", 7, 4, "number in its group of the first draw set to write; the others follow, modulo 16"),
)
CUTS = (
    Field("model_cut", 0, 5, "low bits of a master weight that random rounding removes for the dot products, 0 to 30"),
    Field(
        "scaled_gradient_cut",
        5,
        5,
        "low bits that random rounding removes from scaled gradients, 0 to 30, less the growth of the exponent of step",
    ),
)


MOST_PORTS = max(PORTS)
# Registers of the addresses of a memory port, of 64 bits each. Those of port k, from 1 on, are named NAME_k.
PORT_ADDRESSES = ("base_address", "draw_address", "model_in", "model_out")


def of_port(name: str, port: int) -> str:
    """Return the name of a register, or of something else, of a port; that of port 0 has no number."""
    return f"{name}_{port}" if port else name


def _table() -> tuple[Register, ...]:
    rows: list[tuple[int, str, int, bool, str] | tuple[int, str, int, bool, str, tuple[Field, ...]]] = [
        (0x000, "identity", 32, False, "ASCII 'BLAN'"),
        (0x004, "version", 32, False, "version of this map: major << 16 | minor"),
        (0x008, "build", 32, False, "hash of the RTL sources and the configuration"),
        (0x00C, "max_features", 32, False, "most features of a row; half as many with staleness 1"),
        (0x010, "max_row_words", 32, False, "most words of a row (chunks * digits)"),
        (0x014, "port_bits", 32, False, "width of the memory port, one beat: 64 bits for each of its rows"),
        (0x018, "address_bits", 32, False, "width of an address on the memory port"),
        (0x01C, "outputs", 32, False, "models trained at the same time"),
        (
            0x02C,
            "level_slots",
            32,
            False,
            "levels in the memory of a table lane, 2 << base bits for each chunk; 0: digit lanes",
        ),
        (0x020, "control", 32, True, "write only: 1 start, 2 abort, 4 acknowledge done, 8 encode"),
        (0x024, "status", 32, False, "bit 0 busy, bit 1 done, bits 15..8 error code"),
        (0x028, "irq_enable", 1, True, "1: irq is high while done"),
        (0x030, "random_rounding", 32, False, "1: the build has random rounding"),
        (0x034, "encoder", 32, False, "draw sets that the encoder writes at a time; 0: the build has no encoder"),
        (
            0x03C,
            "shards",
            32,
            False,
            "shards, with 32 features of each chunk: words of a row in a beat; 0: the build has no shards",
        ),
        (0x040, "features", 32, True, "features of a row"),
        (0x044, "groups", 32, True, "row groups of an epoch; a group has the rows of a beat"),
        (0x048, "mode", 25, True, "format of the samples, and what the run computes", MODE),
        (0x050, "draw_sets", 32, True, "number of draw sets; epoch e reads set e mod draw_sets"),
        (0x054, "epochs", 32, True, "epochs of the run"),
        (0x058, "batch_groups", 32, True, "row groups of a mini-batch; the last batch of an epoch may have fewer"),
        (0x060, "step", 21, True, "step / batch size for rows with labels of 0 and more: mantissa | exponent << 16"),
        (
            0x064,
            "step_negative",
            21,
            True,
            "step / batch size for rows with negative labels; differs with class weights",
        ),
        (
            0x068,
            "penalty_step",
            21,
            True,
            "L2: shrinks in a batch; L1: threshold of a batch: mantissa | exponent << 16",
        ),
        (0x06C, "decay", 17, True, "factor of both steps and of penalty_step after each epoch, in 2**-16"),
        (0x070, "phase", 32, True, "L2: accumulator of shrinks at the start of the run"),
        (0x074, "cuts", 10, True, "bits that random rounding removes; 0: none", CUTS),
        (0x078, "seed", 32, True, "seed of random rounding; it changes after each batch"),
        (0x07C, "bounds", 32, True, "bounds of the box, in 2**-12: low | high << 16"),
        (0x0A0, "base_address", 64, True, "address of the labels and base digits of set 0; a multiple of a beat"),
        (0x0A8, "base_stride", 32, True, "bytes from the base region of a set to the next; 0: all sets share it"),
        (0x0B0, "draw_address", 64, True, "address of the draw digits of set 0; a multiple of a beat"),
        (0x0B8, "draw_stride", 32, True, "bytes from the draw region of a set to the next"),
        (0x0C0, "model_in", 64, True, "address of the initial models; a multiple of 128"),
        (0x0C8, "model_out", 64, True, "address of the stored models; a multiple of 128"),
        (
            0x0D0,
            "trace",
            64,
            True,
            "address of the trace, a record for each epoch: cycles, losses; a multiple of a record",
        ),
        (0x0E0, "source_address", 64, True, "address of the raw rows to encode; a multiple of 128"),
        (0x0E8, "source_lines", 32, True, "size of the raw rows, their scales and labels: blocks of 128 bytes"),
        (0x0EC, "encode", 11, True, "what an encoding reads and writes", ENCODE),
        (0x100, "epoch", 32, False, "completed epochs of the run"),
        (0x104, "step_now", 21, False, "step after the decays so far"),
        (0x108, "step_negative_now", 21, False, "step_negative after the decays so far"),
        (0x10C, "penalty_step_now", 21, False, "penalty_step after the decays so far"),
        (0x110, "phase_now", 32, False, "L2: accumulator of shrinks"),
        (0x114, "seed_now", 32, False, "seed after the batches so far"),
        (0x118, "cycles", 64, False, "clock cycles from start to done"),
        (0x120, "beats", 64, False, "read beats accepted from memory"),
        (0x128, "stall_memory", 64, False, "cycles in which the next beat had not arrived"),
        (0x130, "stall_model", 64, False, "cycles in which a beat waited for the model"),
        (0x138, "saturations", 64, False, "clipped values: residuals, scaled gradients, weights"),
        (0x140, "encode_seed", 32, True, "seed of the group of the draw sets of an encoding"),
        (0x200, "ports", 32, False, "memory ports, which share the bits of a beat (port_bits) equally; 0: one port"),
        *(
            (0x200 + 0x20 * port + 8 * i, of_port(name, port), 64, True, f"{name} of memory port {port}")
            for port in range(1, MOST_PORTS)
            for i, name in enumerate(PORT_ADDRESSES)
        ),
        *(
            (0x400 + 8 * port, of_port("source_address", port), 64, True, f"source_address of memory port {port}")
            for port in range(1, MOST_PORTS)
        ),
    ]
    return tuple(Register(name, offset, *rest) for offset, name, *rest in rows)  # type: ignore[arg-type]


REGISTERS: dict[str, Register] = {register.name: register for register in _table()}
# Registers of options of the build. Without its option a register reads as 0, like an unknown address.
TABLE_LANE_REGISTERS = ("level_slots",)
RANDOM_ROUNDING_REGISTERS = ("random_rounding", "cuts", "seed", "seed_now")
ENCODER_REGISTERS = ("encoder", "source_address", "source_lines", "encode", "encode_seed")
SOURCE_ADDRESS = "source_address"  # of the source region on a port: `of_port`
SHARD_REGISTERS = ("shards",)


def port_registers(ports: range) -> tuple[str, ...]:
    """Return the names of the address registers of some ports."""
    return tuple(of_port(name, port) for port in ports for name in PORT_ADDRESSES)


def address_registers(ports: int) -> tuple[str, ...]:
    """Return the names of the address registers of a run in a build with so many ports."""
    return (*port_registers(range(ports)), "trace")


def absent_registers(
    table_lanes: bool, random_rounding: bool, encoder: int, shards: int = 1, ports: int = 1
) -> tuple[str, ...]:
    """Return the registers that a build without some options does not have."""
    return (
        *(() if table_lanes else TABLE_LANE_REGISTERS),
        *(() if random_rounding else RANDOM_ROUNDING_REGISTERS),
        *(() if encoder else ENCODER_REGISTERS),
        *(() if shards > 1 else SHARD_REGISTERS),
        *(() if ports > 1 else ("ports",)),
        *port_registers(range(ports, MOST_PORTS)),
        *(of_port(SOURCE_ADDRESS, port) for port in range(ports if encoder else 1, MOST_PORTS)),
    )


FIELDS = {field.name: (register, field) for register in REGISTERS.values() for field in register.fields}
