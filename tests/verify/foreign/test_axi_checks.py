"""wb2axip's checkers hold for our ports, and each finds faults without help from properties of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Signal
from tests.helpers.broken_block import broken

from bitlane_hw.control.registers import Registers
from bitlane_hw.memory.reader import Reader
from bitlane_hw.memory.writer import Writer
from bitlane_verify.foreign.axi_checks import PROOFS, register_slave, writer
from bitlane_verify.foreign.resettable import Resettable
from bitlane_verify.formal.proof import CONFIG
from bitlane_verify.formal.runner import ProofTools, ProofVerdict, prove

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("wb2axip")]


@pytest.mark.parametrize("name", PROOFS)
def test_our_port_is_proved(tools: ProofTools, tmp_path: Path, name: str) -> None:
    result = prove(PROOFS[name], tools, tmp_path)
    assert result.verdict is ProofVerdict.PROVED, result.notes


# --- faults: of the register slave
def drops_response(m: Any, block: Any) -> None:
    with m.If(~block.bus.bready):
        m.d.sync += block.bus.bvalid.eq(0)


def changes_data(m: Any, block: Any) -> None:
    with m.If(block.bus.rvalid & ~block.bus.rready):
        m.d.sync += block.bus.rdata.eq(block.bus.rdata + 1)


def never_answers(m: Any, block: Any) -> None:
    m.d.sync += block.bus.rvalid.eq(0)


def answers_twice(m: Any, block: Any) -> None:
    again = Signal()
    m.d.sync += again.eq(block.bus.bvalid & block.bus.bready & ~again)
    with m.If(again):
        m.d.sync += block.bus.bvalid.eq(1)


def answers_with_an_error(m: Any, block: Any) -> None:
    m.d.comb += block.bus.bresp.eq(2)


def accepts_nothing(m: Any, block: Any) -> None:
    m.d.comb += block.bus.arready.eq(0)


def answers_after_a_reset(m: Any, block: Any) -> None:
    kept = Signal(reset_less=True)
    m.d.sync += kept.eq(block.bus.rvalid & ~block.bus.rready)
    with m.If(kept):
        m.d.sync += block.bus.rvalid.eq(1)


# --- of the writer
def changes_write_address(m: Any, block: Any) -> None:
    with m.If(block.axi.awvalid & ~block.axi.awready):
        m.d.sync += block.axi.awaddr.eq(block.axi.awaddr + 8)


def drops_write_address(m: Any, block: Any) -> None:
    with m.If(block.axi.awvalid & ~block.axi.awready):
        m.d.sync += block.axi.awvalid.eq(0)


def drops_beat(m: Any, block: Any) -> None:
    refused = Signal()
    m.d.sync += refused.eq(block.axi.wvalid & ~block.axi.wready)
    with m.If(refused):
        m.d.comb += [block.axi.wvalid.eq(0), block.beats.ready.eq(0)]


def marks_every_beat(m: Any, block: Any) -> None:
    m.d.sync += block.axi.wlast.eq(1)


def says_one_beat_too_few(m: Any, block: Any) -> None:
    with m.If(block.requests.valid & block.requests.ready):
        m.d.sync += block.axi.awlen.eq(block.requests.payload.beats - 2)


def lets_responses_wait(m: Any, block: Any) -> None:
    m.d.comb += block.axi.bready.eq(block.axi.awvalid)


# --- of the reader
def changes_burst(m: Any, block: Any) -> None:
    refused = Signal()
    m.d.sync += refused.eq(block.axi.arvalid & ~block.axi.arready)
    with m.If(refused):
        m.d.comb += block.axi.arlen.eq(3)


def drops_burst(m: Any, block: Any) -> None:
    refused = Signal()
    m.d.sync += refused.eq(block.axi.arvalid & ~block.axi.arready)
    with m.If(refused):
        m.d.comb += block.axi.arvalid.eq(0)


def lets_data_wait(m: Any, block: Any) -> None:
    m.d.comb += block.axi.rready.eq(block.axi.arvalid)


def slave(kind: type) -> Registers:
    made: Registers = kind()
    return made


def master(kind: type) -> Any:
    return kind(CONFIG)


@pytest.mark.parametrize(
    ("name", "block", "change"),
    [
        *(
            ("faxil_registers", Registers, change)
            for change in (
                drops_response,
                changes_data,
                never_answers,
                answers_twice,
                answers_with_an_error,
                accepts_nothing,
                answers_after_a_reset,
            )
        ),
        *(
            ("faxi_writer", Writer, change)
            for change in (
                changes_write_address,
                drops_write_address,
                drops_beat,
                marks_every_beat,
                says_one_beat_too_few,
                lets_responses_wait,
            )
        ),
        *(("faxi_reader", Reader, change) for change in (changes_burst, drops_burst, lets_data_wait)),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_the_checker_alone_finds_a_fault(
    tools: ProofTools, tmp_path: Path, name: str, block: type, change: Callable[[Any, Any], None]
) -> None:
    """In a search from the reset on, without our invariants; the failed assertion is one of the foreign file."""
    faulty = broken(block, change)
    alone: dict[str, Any] = {
        "faxil_registers": partial(register_slave, invariants=False),
        "faxi_writer": partial(writer, invariants=False),
        "faxi_reader": PROOFS["faxi_reader"].properties,
    }
    searched = replace(
        PROOFS[name],
        make_block=lambda: Resettable((slave if block is Registers else master)(faulty)),
        properties=alone[name],
        depth=25 if block is Reader else 12,
        covers=1,
    )
    result = prove(searched, tools, tmp_path)
    assert result.verdict is ProofVerdict.REFUTED
    failed = [note for note in result.notes if note.startswith("base: ") and "Assert failed" in note]
    assert failed and all(f"{name}.v:" in note for note in failed), result.notes
