"""The register map as Markdown: `python -m bitlane_hw.export.register_docs FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from bitlane.contract.encoding import ENCODER_BASE_BITS, ValueType
from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.further import FurtherLoss
from bitlane.contract.layout import (
    BURST_BEATS,
    CHUNK_MODEL_BYTES,
    CODEBOOK_BITS,
    DIGIT_BITS,
    MAX_DIGITS,
    MAX_EPOCHS,
    MAX_ROWS,
    WORD_BYTES,
)
from bitlane.contract.modes import ErrorCode, Loss
from bitlane.contract.registers import REGISTERS, Register
from bitlane.contract.software_registers import SOFTWARE_REGISTERS

HEAD = """\
# Registers

Generated from `host/bitlane/contract/registers.py` by `make docs`; do not edit. The bus is AXI4-Lite with 32-bit
words; offsets are in bytes. A register of more than 32 bits has two words, the low word first. Writes to the
registers of a run are ignored during a run. Unknown addresses read as 0.

"""

TABLE = """\
| offset | name | bits | access | meaning |
| --- | --- | --- | --- | --- |"""

SOFTWARE = f"""\
The devices `cpu` and `emulator` can be opened with further losses and elastic net. No hardware has these registers:
there they read as 0. further_loss is at most {max(FurtherLoss):d}."""

BAR = r"\|"  # a bar in a cell of a Markdown table

ERRORS = {
    ErrorCode.NONE: "the run succeeded",
    ErrorCode.CONFIGURATION: "the registers do not describe a valid run (see below); nothing was read or written",
    ErrorCode.READ_SLAVE: "a read returned SLVERR",
    ErrorCode.READ_DECODE: "a read returned DECERR",
    ErrorCode.WRITE_SLAVE: "a write returned SLVERR",
    ErrorCode.WRITE_DECODE: "a write returned DECERR",
    ErrorCode.ABORTED: "the host aborted the run (control bit 1)",
}

RULES = (
    "S is the number of shards: the register `shards`, or 1 if that reads as 0; N is that of ports, likewise",
    "features is 1 to max_features; with staleness 1 at most half of max_features",
    f"groups and batch_groups are 1 to {MAX_ROWS}, batch_tail and epoch_tail are 1 to port_bits / 64 / S",
    f"epochs is 1 to {MAX_EPOCHS}, draw_sets is 1 or more",
    f"base_digits + draws is 1 to {MAX_DIGITS}; with table lanes base_digits is one of "
    f"{', '.join(map(str, CODEBOOK_BITS))}, and draws is 1",
    "the words of a row, ceil(features / (32 S)) * (base_digits + draws), are at most max_row_words; with table lanes "
    "their number is ceil(features / (32 S)) * (base_digits div 2 + 1), plus ceil(features / (64 S)) if base_digits is "
    "odd",
    "with table lanes ceil(features / (32 S)) * (2 << base_digits) is at most level_slots",
    f"decay is {DECAY_RANGE[0]} to {DECAY_RANGE[1]}, loss is at most {max(Loss):d}",
    "bounds: low is at most high, both signed; also if prox is not the box",
    "every address is below 2**address_bits",
    "base_address, base_stride, draw_address and draw_stride are multiples of port_bits / (8 N)",
    f"model_in and model_out are multiples of {CHUNK_MODEL_BYTES} S / N",
    "the addresses of further ports follow the rules of the first",
    "trace is a multiple of the size of a record, "
    f"{WORD_BYTES} * max(port_bits / (64 N), first power of two above outputs) bytes",
)


ENCODING_RULES = (
    f"features is 1 to max_features, groups is 1 to {MAX_ROWS}, base_digits is at most "
    f"{ENCODER_BASE_BITS // DIGIT_BITS}",
    "with several rows a beat, port_bits / 64 / S of them, batch_groups, batch_tail and epoch_tail follow the rules "
    "of a run; otherwise they are ignored",
    f"value_type is at most {max(ValueType):d}, encode_sets is at most encoder",
    "encode_base is 1, or encode_sets is not 0",
    f"source_address, base_address, draw_address and draw_stride are multiples of {BURST_BEATS} beats of a port, "
    f"{BURST_BEATS} * port_bits / (8 N) bytes; the addresses are below 2**address_bits, those of further ports too",
    "source_lines covers the table, the labels and all rows; otherwise some words may have been written",
)


def _row(register: Register) -> str:
    access, meaning = "read, write" if register.writable else "read", register.meaning.replace("|", BAR)
    return f"| `{register.offset:#05x}` | {register.name} | {register.bits} | {access} | {meaning} |"


def markdown() -> str:
    """Return the text of the page."""
    fields = [
        f"| {r.name} | {f.low if f.bits == 1 else f'{f.low + f.bits - 1}..{f.low}'} | {f.name} | {f.meaning} |"
        for r in REGISTERS.values()
        for f in r.fields
    ]
    errors = [f"| {code.value} | {code.name} | {meaning} |" for code, meaning in ERRORS.items()]
    rules = [f"- {rule}" for rule in RULES]
    return "\n".join(
        [
            HEAD.rstrip("\n"),
            "",
            TABLE,
            *map(_row, REGISTERS.values()),
            "",
            "## Registers of devices in software",
            "",
            SOFTWARE,
            "",
            TABLE,
            *map(_row, SOFTWARE_REGISTERS.values()),
            "",
            "## Fields",
            "",
            "| register | bits | name | meaning |",
            "| --- | --- | --- | --- |",
            *fields,
            "",
            "## Error codes",
            "",
            "STATUS bits 15..8 after a run. Counters and state remain readable. The next start clears them.",
            "",
            "| code | name | meaning |",
            "| --- | --- | --- |",
            *errors,
            "",
            "## Rules for the registers of a run",
            "",
            *rules,
            "",
            "## Rules for the registers of an encoding",
            "",
            *(f"- {rule}" for rule in ENCODING_RULES),
            "",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown())
