"""The AXI4-Lite slave, made from the register table."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.registers import RANDOM_ROUNDING_REGISTERS, REGISTERS, TABLE_LANE_REGISTERS
from bitlane_hw.memory.axi import OKAY, AXI4Lite

ADDRESS_BITS = 12


def fields_of(name: str, value: Value) -> data.View:
    """The value of a register that has fields, as a view of these."""
    register = REGISTERS[name]
    fields = {field.name: data.Field(field.bits, field.low) for field in register.fields}
    return data.View(data.FlexibleLayout(register.bits, fields), value)


class Registers(wiring.Component):
    """Every register of the table as a member of its name: writable ones Out, the others In.

    A write takes effect a cycle after address and data are both there; byte strobes count. Writes to registers
    of the run are ignored while `locked` (a run is going on). `control` is not stored: its bits are high
    for one cycle. Unknown addresses read as 0 and swallow writes; every response is OKAY.

    Parameters
    ----------
    table_lanes, random_rounding: whether there are those of table lanes, and of random rounding.

    Members
    -------
    locked: In(1).
    bus: In, AXI4Lite.
    """

    ALWAYS_WRITABLE = ("control", "irq_enable")

    def __init__(self, table_lanes: bool = False, random_rounding: bool = False):
        absent = (
            *(() if table_lanes else TABLE_LANE_REGISTERS),
            *(() if random_rounding else RANDOM_ROUNDING_REGISTERS),
        )
        self._there = {name: register for name, register in REGISTERS.items() if name not in absent}
        members = {name: (Out if register.writable else In)(register.bits) for name, register in self._there.items()}
        super().__init__({**members, "locked": In(1), "bus": In(AXI4Lite(ADDRESS_BITS))})

    def elaborate(self, platform):
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m):
        bus = self.bus
        write = bus.awvalid & bus.wvalid & ~bus.bvalid
        m.d.comb += [bus.awready.eq(write), bus.wready.eq(write), bus.bresp.eq(OKAY)]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        m.d.sync += self.control.eq(0)
        with m.If(write):
            m.d.sync += bus.bvalid.eq(1)
            with m.Switch(bus.awaddr[2:]):
                for name, register in self._there.items():
                    if not register.writable:
                        continue
                    whole = getattr(self, name)
                    allowed = Const(1) if name in self.ALWAYS_WRITABLE else ~self.locked
                    for word in range(register.words):
                        with m.Case(register.offset // 4 + word):
                            field = whole.word_select(word, min(32, register.bits))
                            for low in range(0, len(field), 8):
                                with m.If(allowed & bus.wstrb[low // 8]):
                                    m.d.sync += field[low : low + 8].eq(bus.wdata[low : low + 8])

    def _read(self, m):
        bus = self.bus
        m.d.comb += [bus.arready.eq(~bus.rvalid | bus.rready), bus.rresp.eq(OKAY)]
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        value = Signal(32)
        with m.Switch(bus.araddr[2:]):
            for name, register in self._there.items():
                for word in range(register.words):
                    with m.Case(register.offset // 4 + word):
                        whole = getattr(self, name)
                        m.d.comb += value.eq(
                            0 if name == "control" else whole.word_select(word, min(32, register.bits))
                        )
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(value)]
        return m
