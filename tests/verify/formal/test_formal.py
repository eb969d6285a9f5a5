"""The prover proves what holds, does not prove what does not, and leaves no block with a stream out."""

from __future__ import annotations

import gc
import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module, Signal, UnusedElaboratable
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from tests.helpers.broken_block import broken

import bitlane_hw
import bitlane_hw.accelerator
from bitlane_hw.control.registers import Registers
from bitlane_hw.control.sequencer import Sequencer
from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.table_pass import TablePass
from bitlane_hw.encoder.region_buffer import RegionBuffer
from bitlane_hw.encoder.sequencer import SourceSequencer
from bitlane_hw.encoder.source_reader import SourceReader
from bitlane_hw.memory.address_generator import AddressGenerator
from bitlane_hw.memory.writer import Writer
from bitlane_hw.zynq.downsizer import BurstDownsizer
from bitlane_hw.zynq.memory_port import MemoryPort
from bitlane_hw.zynq.port_guard import PortGuard
from bitlane_hw.zynq.register_port import RegisterPort
from bitlane_hw.zynq.register_slice import RegisterSlice
from bitlane_hw.zynq.upsizer import BurstUpsizer
from bitlane_verify.formal.__main__ import main
from bitlane_verify.formal.blocks import make_block
from bitlane_verify.formal.harness import ProofHarness
from bitlane_verify.formal.port_guard import ResettableGuard
from bitlane_verify.formal.proof import CONFIG, TABLE, Proof
from bitlane_verify.formal.proofs import PROOFS
from bitlane_verify.formal.runner import ProofTools, ProofVerdict, prove


def never_last(m: Any, block: Any) -> None:
    m.d.sync += block.axi.wlast.eq(0)


def short_length(m: Any, block: Any) -> None:
    with m.If(block.requests.valid & block.requests.ready):
        m.d.sync += block.axi.awlen.eq(block.requests.payload.beats)


def data_after_address(m: Any, block: Any) -> None:
    with m.If(block.axi.awvalid):
        m.d.comb += [block.axi.wvalid.eq(0), block.beats.ready.eq(0)]


def impatient(m: Any, block: Any) -> None:
    with m.If(~block.bus.bready):
        m.d.sync += block.bus.bvalid.eq(0)


def deaf(m: Any, block: Any) -> None:
    m.d.comb += block.bus.arready.eq(0)


def wrong_place(m: Any, block: Any) -> None:
    with m.If(block.tokens.payload.chunk == 1):
        m.d.comb += block.tokens.payload.part.eq(3)


def no_half_digits(m: Any, block: Any) -> None:
    m.d.comb += block.tokens.payload.half_digit.eq(0)


def never_waits(m: Any, block: Any) -> None:
    m.d.comb += [block.beats[1].ready.eq(block.beats[1].valid), block.digits.valid.eq(1)]


def skips(m: Any, block: Any) -> None:
    m.d.comb += block.beats.ready.eq(block.start)


def no_pause(m: Any, block: Any) -> None:
    with m.If(block.passes.valid):
        m.d.comb += block.beats.ready.eq(1)


def overwrites(m: Any, block: Any) -> None:
    with m.If(block.input.valid):
        m.d.sync += block.output.payload.eq(block.input.payload)


def ends_early(m: Any, block: Any) -> None:
    m.d.comb += block.gp.rlast.eq(1)


def no_answer(m: Any, block: Any) -> None:
    m.d.comb += block.gp.bvalid.eq(0)


def both_at_the_start(m: Any, block: Any) -> None:
    m.d.comb += block.second.payload.addr.eq(block.bursts.payload.addr)


def one_port_only(m: Any, block: Any) -> None:
    m.d.comb += block.beats.payload.data.eq(block.first.payload.data)


def uncached(m: Any, block: Any) -> None:
    m.d.comb += block.hp0.arcache.eq(0)


def asks_too_much(m: Any, block: Any) -> None:
    with m.If(block.axi.arready):
        m.d.sync += block.axi.arvalid.eq(1)


def long_burst(m: Any, block: Any) -> None:
    m.d.comb += block.requests.payload.beats.eq(16)


def no_gap(m: Any, block: Any) -> None:
    with m.If(block.flags.chunk_last & block.beats.valid & block.room & (block.settings.value_type == 1)):
        m.d.comb += block.part.eq(1)


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("writer", "gradient")), "table_pass", "burst_downsizer"],
)
def test_a_correct_block_is_proved(tools: ProofTools, tmp_path: Path, name: str) -> None:
    result = prove(PROOFS[name], tools, tmp_path)
    assert result.verdict is ProofVerdict.PROVED, result.notes


@pytest.mark.parametrize(
    ("name", "block", "change"),
    [
        ("writer", Writer, never_last),
        ("writer", Writer, short_length),
        ("writer", Writer, data_after_address),
        ("registers_live", Registers, impatient),
        ("registers_live", Registers, deaf),
        pytest.param("address_generator", AddressGenerator, wrong_place, marks=pytest.mark.slow),
        ("table_order", AddressGenerator, no_half_digits),
        ("table_order", AddressGenerator, wrong_place),
        ("table_sequencer", Sequencer, never_waits),
        ("gradient", GradientPass, skips),
        ("table_pass", TablePass, skips),
        ("table_pass", TablePass, no_pause),
        ("register_slice", RegisterSlice, overwrites),
        ("gp_reads", RegisterPort, ends_early),
        ("gp_live", RegisterPort, no_answer),
        ("burst_downsizer", BurstDownsizer, both_at_the_start),
        ("burst_upsizer", BurstUpsizer, one_port_only),
        ("memory_port", MemoryPort, uncached),
        ("source_reader", SourceReader, asks_too_much),
        ("region_buffer", RegionBuffer, long_burst),
        ("source_sequencer", SourceSequencer, no_gap),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_block_is_not_proved(tools: ProofTools, tmp_path: Path, name: str, block: type, change: Any) -> None:
    faulty = broken(block, change)
    tables = name.startswith("table")
    result = prove(
        replace(PROOFS[name], make_block=lambda: make_block(faulty, TABLE if tables else CONFIG)), tools, tmp_path
    )
    assert result.verdict is not ProofVerdict.PROVED
    assert any("Assert failed" in note for note in result.notes), result.notes


@pytest.mark.parametrize("signal", ["wstrb", "wvalid", "bvalid", "rvalid"])
def test_a_guard_that_lets_pass_is_not_proved(tools: ProofTools, tmp_path: Path, signal: str) -> None:
    """A guard that fills up a burst with data, sends words that are not due, or passes on answers of another run."""

    def passes(m: Any, block: Any) -> None:
        source, target = (block.hp, block.logic) if signal in ("bvalid", "rvalid") else (block.logic, block.hp)
        m.d.comb += getattr(target, signal).eq(getattr(source, signal))

    faulty = broken(PortGuard, passes)
    result = prove(replace(PROOFS["port_guard"], make_block=lambda: ResettableGuard(faulty())), tools, tmp_path)
    assert result.verdict is not ProofVerdict.PROVED
    assert any("Assert failed" in note for note in result.notes), result.notes


def test_a_vacuous_proof_is_not_proved(tools: ProofTools, tmp_path: Path) -> None:
    proof = PROOFS["gradient"]

    def nothing_starts(harness: Any) -> None:
        proof.properties(harness)
        harness.assume(~harness.block.start)

    result = prove(replace(proof, properties=nothing_starts), tools, tmp_path)
    assert result.verdict is not ProofVerdict.PROVED
    assert any("Unreached cover" in note for note in result.notes), result.notes


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("sequencer_stale", 40), ("model_core", 10)])
def test_a_proof_that_does_not_reach_its_covers_is_not_proved(
    tools: ProofTools, tmp_path: Path, name: str, steps: int
) -> None:
    result = prove(replace(PROOFS[name], covers=steps), tools, tmp_path)
    assert result.verdict is not ProofVerdict.PROVED
    assert any("Unreached cover" in note for note in result.notes), result.notes


class Flags(wiring.Component):
    """Two flags that keep their values: one that a reset clears, one that it does not."""

    def __init__(self) -> None:
        super().__init__({"cleared": Out(1), "kept": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        cleared, kept = Signal(name="clears"), Signal(reset_less=True, name="keeps")
        m.d.sync += [cleared.eq(cleared), kept.eq(kept)]
        m.d.comb += [self.cleared.eq(cleared), self.kept.eq(kept)]
        return m


@pytest.mark.parametrize(
    ("name", "powered_up", "holds"),
    [("cleared", False, True), ("kept", False, False), ("kept", True, True)],
)
def test_a_register_without_a_reset_begins_with_anything(
    tools: ProofTools, tmp_path: Path, name: str, powered_up: bool, holds: bool
) -> None:
    """So a proof holds after every reset, unless it says that it holds after the configuration of the chip."""

    def stays_zero(harness: ProofHarness) -> None:
        harness.always(~getattr(harness.block, name))
        harness.cover(~getattr(harness.block, name))

    proof = Proof("flags", "", Flags, stays_zero, covers=2, powered_up=powered_up)
    assert (prove(proof, tools, tmp_path).verdict is ProofVerdict.PROVED) == holds


@pytest.mark.slow
def test_an_engine_that_a_start_does_not_reset_is_not_proved(
    tools: ProofTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bitlane_hw.accelerator, "ResetInserter", lambda clear: lambda engine: engine)
    result = prove(PROOFS["accelerator"], tools, tmp_path)
    assert result.verdict is not ProofVerdict.PROVED
    assert any("Assert failed" in note for note in result.notes), result.notes


@pytest.fixture
def unused() -> Iterator[None]:
    """Blocks that are made and not elaborated are no mistake here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        yield
        gc.collect()


@pytest.mark.usefixtures("unused")
def test_a_proof_must_cover_something() -> None:
    with pytest.raises(ValueError, match="proof 'gradient' has no cover"):
        replace(PROOFS["gradient"], properties=lambda harness: None).harness()


def test_exit_status(tools: ProofTools, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = broken(GradientPass, skips)
    monkeypatch.setitem(PROOFS, "gradient", replace(PROOFS["gradient"], make_block=lambda: faulty(CONFIG)))
    assert main(["gradient"]) == 1
    assert "0 of 1 proved" in capsys.readouterr().out


def blocks() -> dict[str, type]:
    """All components of bitlane_hw."""
    names = [each.name for each in pkgutil.walk_packages(bitlane_hw.__path__, "bitlane_hw.")]
    modules = [importlib.import_module(name) for name in names]
    return {
        name: kind
        for module in modules
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, wiring.Component) and kind.__module__ == module.__name__
    }


def waits(block: Any) -> bool:
    """Whether it has a stream on which somebody may have to wait."""
    ready = (value for path, _, value in block.signature.flatten(block) if path[-1] == "ready")
    return any(isinstance(value, Signal) for value in ready)


@pytest.mark.usefixtures("unused")
def test_every_block_with_backpressure_has_a_proof() -> None:
    proved = {type(proof.make_block()).__name__ for proof in PROOFS.values()}
    waiting = {name for name, kind in blocks().items() if waits(make_block(kind))}
    assert {"AddressGenerator", "Reader", "Writer", "Sequencer", "RegisterSlice"} <= waiting, (
        "the search finds those that everybody knows"
    )
    assert waiting - proved == set(), "these have a stream somebody may wait for, and no proof in bitlane_verify.formal"
