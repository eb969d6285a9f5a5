"""Proofs of our AXI ports with the properties of wb2axip: register slave, reader and writer.

The reset is free: it comes in any cycle after the first, for any time. Invariants of ours, which relate the counts of a
checker to our registers, make the proofs inductive. Without them (`invariants=False`) the checker stands alone, for a
search from the reset on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import ClockSignal, Instance, Mux, Signal, ValueLike
from amaranth.lib import wiring

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.control.registers import ADDRESS_BITS, READ_LATENCY
from bitlane_hw.encoder.source_reader import SourceReader
from bitlane_hw.memory.reader import Reader
from bitlane_hw.memory.writer import Writer
from bitlane_verify.formal.harness import ProofHarness, implies, same
from bitlane_verify.formal.proof import CONFIG, Proof
from bitlane_verify.formal.registers import ALL

from .repairs import repaired
from .resettable import Resettable
from .sources import WB2AXIP

# The ports of both checkers, without the prefix `i_axi_`.
LITE = {"aw": ("addr", "prot"), "w": ("data", "strb"), "b": ("resp",), "ar": ("addr", "prot"), "r": ("data", "resp")}
BURST = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos")
FULL = {
    "aw": BURST,
    "w": ("data", "strb", "last"),
    "b": ("id", "resp"),
    "ar": BURST,
    "r": ("id", "resp", "data", "last"),
}
# Bits of the checker's counters of bursts, of beats, and of waiting cycles. It demands more than 8.
COUNT_BITS = 10


@dataclass(frozen=True)
class Checker:
    """A module of wb2axip with properties of a bus.

    Attributes
    ----------
    module : str
        Its name.
    channels : dict of str to tuple of str
        The signals of each channel, besides valid and ready.
    parameters : dict of str to int
        Of the module.
    count_bits : dict of str to int
        Widths of its outputs: what it counts.
    """

    module: str
    channels: dict[str, tuple[str, ...]]
    parameters: dict[str, int]
    count_bits: dict[str, int]

    def attach(self, harness: ProofHarness, bus: wiring.PureInterface, rst: ValueLike) -> dict[str, Any]:
        """Instantiate the module on a bus, whose missing signals are 0. Return its counts by name."""
        names = [prefix + name for prefix, names in self.channels.items() for name in ("valid", "ready", *names)]
        counts = {name: Signal(bits, name=name) for name, bits in self.count_bits.items()}
        harness.m.submodules.checker = Instance(
            self.module,
            i_i_clk=ClockSignal(),
            i_i_axi_reset_n=~rst,
            **{f"p_{name}": value for name, value in self.parameters.items()},
            **{f"i_i_axi_{name}": getattr(bus, name, 0) for name in names},
            **{f"o_{name}": count for name, count in counts.items()},
        )
        return counts


# A master may wait with its answers for ever, and nothing is assumed of how long a reset is.
SLAVE = Checker(
    "faxil_slave",
    LITE,
    {
        "C_AXI_ADDR_WIDTH": ADDRESS_BITS,
        "F_OPT_BRESP": 0,  # no response is an error
        "F_OPT_RRESP": 0,
        "F_LGDEPTH": 4,
        "F_AXI_MAXWAIT": READ_LATENCY,  # cycles for which a complete request waits, at most, unless a response waits
        "F_AXI_MAXDELAY": READ_LATENCY,  # cycles from a request to its response, at most
        "F_AXI_MAXRSTALL": 0,
    },
    {"f_axi_rd_outstanding": 4, "f_axi_wr_outstanding": 4, "f_axi_awr_outstanding": 4},
)

# A memory may wait with everything for ever.
MASTER = Checker(
    "faxi_master",
    FULL,
    {
        "C_AXI_ID_WIDTH": 1,
        "C_AXI_DATA_WIDTH": CONFIG.width,
        "C_AXI_ADDR_WIDTH": CONFIG.address_bits,
        "OPT_EXCLUSIVE": 0,
        "F_LGDEPTH": COUNT_BITS,
        "F_AXI_MAXSTALL": 0,
        "F_AXI_MAXRSTALL": 1,  # no beat and no response waits for our masters
        "F_AXI_MAXDELAY": 0,
    },
    {
        "f_axi_awr_nbursts": COUNT_BITS,
        "f_axi_wr_pending": 9,
        "f_axi_rd_nbursts": COUNT_BITS,
        "f_axi_rd_outstanding": COUNT_BITS,
    },
)


def register_slave(harness: ProofHarness, invariants: bool = True) -> None:
    """The register slave has the properties of `faxil_slave`, for any master that AXI4-Lite allows."""
    block, inside = harness.block, harness.inside["core"]
    bus = block.core.bus
    counts = SLAVE.attach(harness, bus, block.rst)
    reads = [inside[f"reading_{step}"] for step in range(1, READ_LATENCY)]
    if invariants:
        harness.always(
            counts["f_axi_awr_outstanding"] == bus.bvalid,
            counts["f_axi_wr_outstanding"] == bus.bvalid,
            counts["f_axi_rd_outstanding"] == sum((*reads, bus.rvalid)),
        )
    harness.cover(harness.ever(block.rst & bus.bvalid & bus.rvalid) & bus.bvalid & bus.rvalid)


def reader(harness: ProofHarness) -> None:
    """The read master has the properties of `faxi_master`, for any memory, run, and consumer of its beats."""
    block = harness.block
    axi = block.core.axi
    MASTER.attach(harness, axi, block.rst)
    resets = harness.ever(harness.ever(axi.rvalid) & block.rst)
    harness.cover(axi.rvalid & axi.rlast & harness.ever(axi.rvalid & ~axi.rlast) & resets)


def writer(harness: ProofHarness, invariants: bool = True) -> None:
    """The write master has the properties of `faxi_master`.

    Assumed of the memory: it takes no beat before the address of its burst, and answers what it has taken. The checker
    assumes that it takes no address within a burst. Assumed of the logic: requests of 1 to 16 beats, and beats that
    stay until they are taken.
    """
    block, inside = harness.block, harness.inside["core"]
    core = block.core
    axi, requests, beats = core.axi, core.requests, core.beats
    counts = MASTER.attach(harness, axi, block.rst)
    bursts, pending = counts["f_axi_awr_nbursts"], counts["f_axi_wr_pending"]
    left = inside["left"]
    harness.assume(
        implies(requests.valid, (requests.payload.beats != 0) & (requests.payload.beats <= BURST_BEATS)),
        same(beats.payload, harness.past(beats.payload)) | harness.past(beats.ready) | (left == 0),
        implies(axi.wready & axi.awvalid, axi.awready),
        implies(axi.bvalid, bursts > (pending != 0)),
    )
    if invariants:
        harness.always(
            pending == Mux(axi.awvalid, 0, left),
            bursts + axi.awvalid == inside["outstanding"],
            left <= BURST_BEATS,
            implies(axi.awvalid, left == axi.awlen + 1),
            inside["sending"] == (left != 0),
            implies(inside["sending"], axi.wlast == (left == 1)),
        )
    harness.cover(axi.wvalid & axi.wready & axi.wlast & (bursts == 2) & harness.ever(block.rst & (pending == 2)))


def _slave_properties() -> str:
    return WB2AXIP.text("faxil_slave.v")


def _master_properties() -> str:
    return repaired(WB2AXIP.text("faxi_master.v"))


def _resettable(make_block: Callable[[], wiring.Component]) -> Callable[[], Resettable]:
    return lambda: Resettable(make_block())


def _source_reader() -> SourceReader:
    return SourceReader(CONFIG.address_bits, CONFIG.fifo_beats)


PROOFS = {
    proof.name: proof
    for proof in (
        Proof(
            "faxil_registers",
            "wb2axip's faxil_slave: stable and timely responses, one for each transfer",
            _resettable(ALL),
            register_slave,
            covers=20,
            depth=6,
            verilog=_slave_properties,
        ),
        Proof(
            "faxi_reader",
            "wb2axip's faxi_master: addresses stay until taken, data never waits",
            _resettable(lambda: Reader(CONFIG)),
            reader,
            covers=40,
            verilog=_master_properties,
        ),
        Proof(
            "faxi_source_reader",
            "the same of the encoder's read master",
            _resettable(_source_reader),
            reader,
            covers=40,
            verilog=_master_properties,
        ),
        Proof(
            "faxi_writer",
            "wb2axip's faxi_master: addresses and beats stay until taken, the last beat is marked",
            _resettable(lambda: Writer(CONFIG)),
            writer,
            covers=30,
            verilog=_master_properties,
        ),
    )
}
