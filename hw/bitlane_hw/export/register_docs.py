"""The register map as Markdown: `python -m bitlane_hw.export.register_docs FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.layout import CHUNK_MODEL_BYTES, CODEBOOK_BITS, MAX_DIGITS, MAX_EPOCHS, MAX_ROWS, WORD_BYTES
from bitlane.contract.modes import ErrorCode, Loss
from bitlane.contract.registers import REGISTERS

HEAD = """\
# Registers

Made from `host/bitlane/contract/registers.py` by `make docs`; do not edit. AXI4-Lite, 32-bit words, byte offsets; a
register of more than 32 bits takes two words, the low one first. Registers of a run are ignored when written while a
run is going on. Unknown addresses read as 0.

| offset | name | bits | access | meaning |
| --- | --- | --- | --- | --- |
"""

BAR = r"\|"  # a bar inside a cell of a table

ERRORS = {
    ErrorCode.NONE: "the run went well",
    ErrorCode.CONFIGURATION: "the registers make no valid run (below); nothing was read or written",
    ErrorCode.READ_SLAVE: "a read was answered with SLVERR",
    ErrorCode.READ_DECODE: "a read was answered with DECERR",
    ErrorCode.WRITE_SLAVE: "a write was answered with SLVERR",
    ErrorCode.WRITE_DECODE: "a write was answered with DECERR",
    ErrorCode.ABORTED: "control bit 1 was written",
}

RULES = (
    "features is 1 to max_features; with staleness 1, to half of max_features",
    f"groups and batch_groups are 1 to {MAX_ROWS}, batch_tail and epoch_tail are 1 to port_bits / 64",
    f"epochs is 1 to {MAX_EPOCHS}, draw_sets is 1 or more",
    f"base_digits + draws is 1 to {MAX_DIGITS}; with table lanes base_digits is one of "
    f"{', '.join(map(str, CODEBOOK_BITS))}, and draws is 1",
    "a row's words, ceil(features / 32) * (base_digits + draws), are at most max_row_words; with table lanes that is "
    "ceil(features / 32) * (base_digits div 2 + 1), and for an odd number of base bits ceil(features / 64) more",
    "with table lanes ceil(features / 32) * (2 << base_digits) is at most level_slots",
    f"decay is {DECAY_RANGE[0]} to {DECAY_RANGE[1]}, loss is at most {max(Loss):d}",
    "the low of bounds is not above the high, both signed, whatever prox is",
    "every address is below 2**address_bits",
    "base_address, base_stride, draw_address and draw_stride are multiples of port_bits / 8",
    f"model_in and model_out are multiples of {CHUNK_MODEL_BYTES}",
    f"trace is a multiple of a record: {WORD_BYTES} * max(port_bits / 64, the first power of two above outputs) bytes",
)


def markdown() -> str:
    """The whole page."""
    rows = [
        f"| `{r.offset:#05x}` | {r.name} | {r.bits} | {'read, write' if r.writable else 'read'} "
        f"| {r.meaning.replace('|', BAR)} |"
        for r in REGISTERS.values()
    ]
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
            *rows,
            "",
            "## Fields",
            "",
            "| register | bits | name | meaning |",
            "| --- | --- | --- | --- |",
            *fields,
            "",
            "## Error codes",
            "",
            "STATUS bits 15..8 once a run is done. Counters and state stay readable; the next start begins afresh.",
            "",
            "| code | name | meaning |",
            "| --- | --- | --- |",
            *errors,
            "",
            "## What a run must satisfy",
            "",
            *rules,
            "",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown())
