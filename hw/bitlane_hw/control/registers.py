"""The AXI4-Lite slave, generated from the register table."""

from __future__ import annotations

from amaranth.hdl import Array, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.registers import REGISTERS, absent_registers
from bitlane_hw.common.fixed_point import delay_valid, register
from bitlane_hw.memory.axi import OKAY, AXI4Lite

ADDRESS_BITS = 12
BLOCK_WORDS = 8  # of which one is selected in the first step of a read
READ_LATENCY = 3


def fields_of(name: str, value: Value) -> data.View:
    """Return the value of the register `name` as a view of its fields."""
    register = REGISTERS[name]
    fields = {field.name: data.Field(field.bits, field.low) for field in register.fields}
    return data.View(data.FlexibleLayout(register.bits, fields), value)


class Registers(wiring.Component):
    """The registers of `bitlane.contract.registers` behind an AXI4-Lite slave.

    Each register of the table is a member of the same name: an output if it is writable, else an input. Address and
    data of a write are taken together, one cycle after both are valid; the write takes effect in the next cycle. Byte
    strobes select the bytes that change. While `locked`, writes to the registers of a run are ignored. `control` is not
    stored: its bits are high for one cycle. Unknown addresses read as 0 and ignore writes. Every response is OKAY.

    No output depends on an input of the same cycle (Arm IHI 0022, section A3.1.1).

    A read passes three registers: its address, one word of each block of `BLOCK_WORDS`, and the data. So no path leads
    from a counter far away through the complete selection.

    Latency: the response to a write is valid one cycle after its transfer, that to a read `READ_LATENCY` cycles after
    it, with the value of the register one cycle after the transfer. Throughput: one write in two cycles, one read in
    `READ_LATENCY` + 1 cycles. Backpressure: until a response is taken, no further transfer of the same direction is
    accepted.

    Parameters
    ----------
    table_lanes : bool, default=False
        Whether the build has the registers of table lanes.
    random_rounding : bool, default=False
        Whether the build has the registers of random rounding.
    encoder : int, default=0
        Draw sets of the encoder of the build; 0 without one.
    shards : int, default=1
        Shards of the build; 1 without the register.
    ports : int, default=1
        Memory ports of the build; 1 without the registers of further ones.

    Members
    -------
    locked : 1 bit, in
        A run is in progress.
    bus : AXI4Lite, in
        The slave port.
    """

    ALWAYS_WRITABLE = ("control", "irq_enable")

    def __init__(
        self,
        table_lanes: bool = False,
        random_rounding: bool = False,
        encoder: int = 0,
        shards: int = 1,
        ports: int = 1,
    ):
        absent = absent_registers(table_lanes, random_rounding, encoder, shards, ports)
        self._registers = {name: register for name, register in REGISTERS.items() if name not in absent}
        members = {
            name: (Out if register.writable else In)(register.bits) for name, register in self._registers.items()
        }
        super().__init__({**members, "locked": In(1), "bus": In(AXI4Lite(ADDRESS_BITS))})

    def elaborate(self, platform):
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m):
        """The write channels, and the registers that they change."""
        bus = self.bus
        ready = Signal()  # both are valid, and stay valid until the transfer
        write = bus.awvalid & bus.wvalid & ready
        m.d.comb += [bus.awready.eq(ready), bus.wready.eq(ready), bus.bresp.eq(OKAY)]
        m.d.sync += ready.eq(bus.awvalid & bus.wvalid & ~ready & (bus.bready | ~bus.bvalid))
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        m.d.sync += self.control.eq(0)
        with m.If(write):
            m.d.sync += bus.bvalid.eq(1)
            with m.Switch(bus.awaddr[2:]):
                for name, register in self._registers.items():
                    if not register.writable:
                        continue
                    value = getattr(self, name)
                    allowed = Const(1) if name in self.ALWAYS_WRITABLE else ~self.locked
                    for word in range(register.words):
                        with m.Case(register.offset // 4 + word):
                            half = value.word_select(word, min(32, register.bits))
                            for low in range(0, len(half), 8):
                                with m.If(allowed & bus.wstrb[low // 8]):
                                    m.d.sync += half[low : low + 8].eq(bus.wdata[low : low + 8])

    def _read(self, m):
        """The read channels."""
        bus = self.bus
        accepted = bus.arvalid & bus.arready
        stages = delay_valid(m, accepted, READ_LATENCY - 1, "reading")
        address = Signal(len(bus.araddr) - 2)
        in_block = BLOCK_WORDS.bit_length() - 1
        m.d.comb += [bus.arready.eq(~stages[0] & ~stages[1] & ~bus.rvalid), bus.rresp.eq(OKAY)]
        with m.If(accepted):
            m.d.sync += address.eq(bus.araddr[2:])
        selected = {
            block: register(m, Array(words)[address[:in_block]], f"block_{block}")
            for block, words in self._blocks().items()
        }
        value = Signal(32)
        with m.Switch(address[in_block:]):
            for block, word in selected.items():
                with m.Case(block):
                    m.d.comb += value.eq(word)
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(stages[1]):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(value)]

    def _blocks(self):
        """Return the words of each aligned block of registers by its number; unknown words are 0."""
        blocks = {}
        for name, entry in self._registers.items():
            for word in range(entry.words):
                block, index = divmod(entry.offset // 4 + word, BLOCK_WORDS)
                half = getattr(self, name).word_select(word, min(32, entry.bits))
                words = blocks.setdefault(block, [Const(0, 32)] * BLOCK_WORDS)
                words[index] = Const(0, 32) if name == "control" else half
        return blocks
