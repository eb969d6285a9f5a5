"""The AXI4-Lite slave, generated from the register table."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.registers import RANDOM_ROUNDING_REGISTERS, REGISTERS, TABLE_LANE_REGISTERS
from bitlane_hw.memory.axi import OKAY, AXI4Lite

ADDRESS_BITS = 12


def fields_of(name: str, value: Value) -> data.View:
    """Return the value of the register `name` as a view of its fields."""
    register = REGISTERS[name]
    fields = {field.name: data.Field(field.bits, field.low) for field in register.fields}
    return data.View(data.FlexibleLayout(register.bits, fields), value)


class Registers(wiring.Component):
    """The registers of `bitlane.contract.registers` behind an AXI4-Lite slave.

    Each register of the table is a member of the same name: an output if it is writable, else an input. A write takes
    effect one cycle after both address and data are valid. Byte strobes select the bytes that change. While `locked`,
    writes to the registers of a run are ignored. `control` is not stored: its bits are high for one cycle. Unknown
    addresses read as 0 and ignore writes. Every response is OKAY.

    Latency: a response is valid one cycle after its transfer. Throughput: one read a cycle, one write in two cycles.
    Backpressure: while a response is not taken, no further transfer of the same direction is accepted.

    Parameters
    ----------
    table_lanes : bool, default=False
        Whether the build has the registers of table lanes.
    random_rounding : bool, default=False
        Whether the build has the registers of random rounding.

    Members
    -------
    locked : 1 bit, in
        A run is in progress.
    bus : AXI4Lite, in
        The slave port.
    """

    ALWAYS_WRITABLE = ("control", "irq_enable")

    def __init__(self, table_lanes: bool = False, random_rounding: bool = False):
        absent = (
            *(() if table_lanes else TABLE_LANE_REGISTERS),
            *(() if random_rounding else RANDOM_ROUNDING_REGISTERS),
        )
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
        write = bus.awvalid & bus.wvalid & ~bus.bvalid
        m.d.comb += [bus.awready.eq(write), bus.wready.eq(write), bus.bresp.eq(OKAY)]
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
                            part = value.word_select(word, min(32, register.bits))
                            for low in range(0, len(part), 8):
                                with m.If(allowed & bus.wstrb[low // 8]):
                                    m.d.sync += part[low : low + 8].eq(bus.wdata[low : low + 8])

    def _read(self, m):
        """The read channels."""
        bus = self.bus
        m.d.comb += [bus.arready.eq(~bus.rvalid | bus.rready), bus.rresp.eq(OKAY)]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        value = Signal(32)
        with m.Switch(bus.araddr[2:]):
            for name, register in self._registers.items():
                for word in range(register.words):
                    with m.Case(register.offset // 4 + word):
                        part = getattr(self, name).word_select(word, min(32, register.bits))
                        m.d.comb += value.eq(0 if name == "control" else part)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(value)]
        return m
