"""Register maps as plain values: of a node of SystemRDL's compiler, and of the register table."""

from __future__ import annotations

from typing import Any

from bitlane.contract.registers import REGISTERS

Fields = list[tuple[str, int, int]]
Words = dict[str, tuple[int, bool, bool, Fields]]  # name: byte offset, readable, writable, fields (name, low, high)


def rdl_words(top: Any) -> Words:
    """The words of an address map of the compiler."""
    return {
        word.inst_name: (
            word.absolute_address,
            word.has_sw_readable,
            word.has_sw_writable,
            [(field.inst_name, field.low, field.high) for field in word.fields()],
        )
        for word in (node for node in top.descendants() if type(node).__name__ == "RegNode")
    }


def table_words() -> Words:
    """The same words of the register table. Only `control` cannot be read: it reads as 0."""
    words: Words = {}
    for name, register in REGISTERS.items():
        for number in range(register.words):
            last = min(31, register.bits - 32 * number - 1)
            fields = [(each.name, each.low, each.low + each.bits - 1) for each in register.fields] or [
                ("value", 0, last)
            ]
            words[name + "_high" * number] = register.offset + 4 * number, name != "control", register.writable, fields
    return words
