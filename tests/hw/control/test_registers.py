"""The AXI4-Lite slave: every register of the table, strobes, locking, and backpressure."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from amaranth.sim import Simulator
from tests.helpers.simulation import run

from bitlane.contract.registers import MOST_PORTS, REGISTERS, Register
from bitlane_hw.control.registers import READ_LATENCY, Registers

ALWAYS = ("control", "irq_enable")
STORED = [register for register in REGISTERS.values() if register.writable and register.name != "control"]
KNOWN = {register.offset + 4 * word for register in REGISTERS.values() for word in range(register.words)}


def test_registers_occupy_one_page():
    """The bus has 12 address bits."""
    bus = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS).bus
    assert 1 << len(bus.awaddr) == 1 << len(bus.araddr) == 4096


class Bus:
    """A master with random pauses of up to `slowness` cycles."""

    def __init__(self, ctx: Any, dut: Registers, rng: Random, slowness: int = 0):
        self.ctx = ctx
        self.bus = dut.bus
        self.rng = rng
        self.slowness = slowness

    def _pause(self) -> int:
        return self.rng.randint(0, self.slowness)

    async def write(self, address: int, data: int, strobes: int = 0xF) -> None:
        """Write a word; return in the cycle in which the response is taken."""
        ctx, bus = self.ctx, self.bus
        delays = {"aw": self._pause(), "w": self._pause()}
        cycle = 0
        while delays:
            for channel, delay in delays.items():
                if cycle >= delay:
                    ctx.set(getattr(bus, f"{channel}valid"), 1)
            ctx.set(bus.awaddr, address)
            ctx.set(bus.wdata, data)
            ctx.set(bus.wstrb, strobes)
            accepted = [c for c in delays if ctx.get(getattr(bus, f"{c}valid")) and ctx.get(getattr(bus, f"{c}ready"))]
            await ctx.tick()
            for channel in accepted:
                ctx.set(getattr(bus, f"{channel}valid"), 0)
                del delays[channel]
            cycle += 1
            assert cycle < 50, "the write is not accepted"
        for _ in range(self._pause()):
            assert ctx.get(bus.bvalid), "the response was withdrawn"
            await ctx.tick()
        ctx.set(bus.bready, 1)
        assert ctx.get(bus.bvalid)
        assert ctx.get(bus.bresp) == 0
        await ctx.tick()
        ctx.set(bus.bready, 0)
        assert not ctx.get(bus.bvalid), "a second response"

    async def read(self, address: int) -> int:
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.arvalid, 1)
        ctx.set(bus.araddr, address)
        while not ctx.get(bus.arready):
            await ctx.tick()
        await ctx.tick()
        ctx.set(bus.arvalid, 0)
        ctx.set(bus.araddr, self.rng.getrandbits(12))
        for _ in range(READ_LATENCY - 1):
            assert not ctx.get(bus.rvalid) and not ctx.get(bus.arready)
            await ctx.tick()
        for _ in range(self._pause()):
            assert ctx.get(bus.rvalid), "the data was withdrawn"
            await ctx.tick()
        ctx.set(bus.rready, 1)
        assert ctx.get(bus.rvalid)
        assert ctx.get(bus.rresp) == 0
        data: int = ctx.get(bus.rdata)
        await ctx.tick()
        ctx.set(bus.rready, 0)
        assert not ctx.get(bus.rvalid), "a second response"
        return data


def word_bits(register: Register, word: int) -> int:
    return min(32, register.bits - 32 * word)


@pytest.mark.parametrize("slowness", [0, 3])
def test_every_writable_register(seed: int, slowness: int) -> None:
    """A register stores exactly its bits and returns them; no write to another register changes it."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        bus = Bus(ctx, dut, rng, slowness)
        held = {register.name: 0 for register in STORED}
        for _ in range(2):
            for register in rng.sample(STORED, len(STORED)):
                value = 0
                for word in range(register.words):
                    data = rng.choice((rng.getrandbits(32), 0xFFFF_FFFF))
                    await bus.write(register.offset + 4 * word, data)
                    value |= (data & ((1 << word_bits(register, word)) - 1)) << (32 * word)
                held[register.name] = value
                assert ctx.get(getattr(dut, register.name)) == value, register.name
        for register in STORED:
            assert ctx.get(getattr(dut, register.name)) == held[register.name], register.name
            for word in range(register.words):
                expected = held[register.name] >> (32 * word) & 0xFFFF_FFFF
                assert await bus.read(register.offset + 4 * word) == expected, register.name

    run(dut, testbench)


def test_strobes(seed: int) -> None:
    """A write changes only the bytes with a strobe, in no other register."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        bus = Bus(ctx, dut, rng)
        held = {register.name: 0 for register in STORED}
        for register in rng.sample(STORED, len(STORED)):
            for strobes in (0b1111, *rng.sample(range(16), 4)):
                word = rng.randrange(register.words)
                data = rng.getrandbits(32)
                await bus.write(register.offset + 4 * word, data, strobes)
                mask = sum(0xFF << (8 * i) for i in range(4) if strobes >> i & 1)
                mask &= (1 << word_bits(register, word)) - 1
                value = held[register.name]
                held[register.name] = value & ~(mask << (32 * word)) | (data & mask) << (32 * word)
                assert ctx.get(getattr(dut, register.name)) == held[register.name], (register.name, strobes)
        for name, value in held.items():
            assert ctx.get(getattr(dut, name)) == value, name

    run(dut, testbench)


def test_single_byte_writes(seed: int) -> None:
    """The bytes of both words of a 64-bit register are written in any order."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        bus = Bus(ctx, dut, rng)
        for register in STORED:
            if register.bits != 64:
                continue
            wanted = rng.getrandbits(64)
            for byte in rng.sample(range(8), 8):
                word, place = divmod(byte, 4)
                noise = rng.getrandbits(32) & ~(0xFF << 8 * place)
                data = wanted >> 32 * word & 0xFF << 8 * place
                await bus.write(register.offset + 4 * word, noise | data, 1 << place)
            assert ctx.get(getattr(dut, register.name)) == wanted, register.name

    run(dut, testbench)


def test_every_read_only_register(seed: int) -> None:
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, shards=2, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        bus = Bus(ctx, dut, rng, 1)
        values = {
            register.name: rng.getrandbits(register.bits) for register in REGISTERS.values() if not register.writable
        }
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        for name, value in values.items():
            register = REGISTERS[name]
            for word in range(register.words):
                await bus.write(register.offset + 4 * word, rng.getrandbits(32))
                assert await bus.read(register.offset + 4 * word) == value >> (32 * word) & 0xFFFF_FFFF, name

    run(dut, testbench)


def test_control_is_a_pulse(seed: int) -> None:
    """High for one cycle after address and data, reads as 0; without a strobe on its byte there is no pulse."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)
    pulses: list[int] = []

    async def testbench(ctx: Any) -> None:
        bus = Bus(ctx, dut, rng, 3)
        for value in (1, 2, 4, 7):
            await bus.write(REGISTERS["control"].offset, value)
            await bus.write(REGISTERS["control"].offset, 7, 0b1110)
            assert await bus.read(REGISTERS["control"].offset) == 0

    async def watch(ctx: Any) -> None:
        due = False
        async for _, _, control, accepted, strobes, address in ctx.tick().sample(
            dut.control, dut.bus.awready & dut.bus.awvalid & dut.bus.wvalid, dut.bus.wstrb, dut.bus.awaddr
        ):
            assert bool(control) == due
            due = accepted and bool(strobes & 1) and address == REGISTERS["control"].offset
            pulses.extend([control] * bool(control))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    simulator.add_testbench(watch, background=True)
    simulator.run()
    assert pulses == [1, 2, 4, 7]


def test_registers_of_a_run_are_locked(seed: int) -> None:
    """During a run its registers keep their values; control and irq_enable can be written."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        bus = Bus(ctx, dut, rng)
        for register in STORED:
            for word in range(register.words):
                await bus.write(register.offset + 4 * word, 0xFFFF_FFFF)
        ctx.set(dut.locked, 1)
        for register in STORED:
            for word in range(register.words):
                await bus.write(register.offset + 4 * word, 0)
            expected = 0 if register.name in ALWAYS else (1 << register.bits) - 1
            assert ctx.get(getattr(dut, register.name)) == expected, register.name
        ctx.set(dut.locked, 0)
        for register in STORED:
            await bus.write(register.offset, 0)
            assert ctx.get(getattr(dut, register.name)) & 0xFFFF_FFFF == 0, register.name

    run(dut, testbench)


def test_control_is_writable_while_locked() -> None:
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.locked, 1)
        for name in ("awvalid", "wvalid", "bready"):
            ctx.set(getattr(dut.bus, name), 1)
        ctx.set(dut.bus.awaddr, REGISTERS["control"].offset)
        ctx.set(dut.bus.wdata, 2)
        ctx.set(dut.bus.wstrb, 0xF)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.control) == 2

    run(dut, testbench)


def test_unknown_addresses(seed: int) -> None:
    """They read as 0, ignore writes and answer OKAY; no register changes."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, shards=2, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        bus = Bus(ctx, dut, rng)
        for register in REGISTERS.values():
            if not register.writable:
                ctx.set(getattr(dut, register.name), (1 << register.bits) - 1)
        for address in rng.sample(sorted(set(range(0, 1 << 12, 4)) - KNOWN), 150):
            await bus.write(address, 0xFFFF_FFFF)
            assert await bus.read(address) == 0, hex(address)
        for register in STORED:
            assert ctx.get(getattr(dut, register.name)) == 0, register.name

    run(dut, testbench)


def test_reads_in_a_row(seed: int) -> None:
    """A master that is always ready receives each word READ_LATENCY cycles after its address, and asks again then."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)
    values = {"identity": 0x1234, "version": 0x5678}

    async def testbench(ctx: Any) -> None:
        for name, value in values.items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.bus.rready, 1)
        ctx.set(dut.bus.arvalid, 1)
        for _ in range(30):
            name = rng.choice(list(values))
            ctx.set(dut.bus.araddr, REGISTERS[name].offset)
            assert ctx.get(dut.bus.arready)
            for _ in range(READ_LATENCY):
                await ctx.tick()
                assert not ctx.get(dut.bus.arready)
            assert ctx.get(dut.bus.rvalid)
            assert ctx.get(dut.bus.rdata) == values[name]
            await ctx.tick()

    run(dut, testbench)


def test_writes_in_a_row(seed: int) -> None:
    """A master that is always ready writes a word every two cycles; it is taken in the second one."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        for name in ("awvalid", "wvalid", "bready"):
            ctx.set(getattr(dut.bus, name), 1)
        ctx.set(dut.bus.wstrb, 0xF)
        for _ in range(30):
            register = rng.choice([register for register in STORED if register.bits == 32])
            data = rng.getrandbits(32)
            ctx.set(dut.bus.awaddr, register.offset)
            ctx.set(dut.bus.wdata, data)
            assert not ctx.get(dut.bus.awready) and not ctx.get(dut.bus.wready)
            await ctx.tick()
            assert ctx.get(dut.bus.awready) and ctx.get(dut.bus.wready) and not ctx.get(dut.bus.bvalid)
            await ctx.tick()
            assert ctx.get(dut.bus.bvalid) and ctx.get(getattr(dut, register.name)) == data

    run(dut, testbench)


@pytest.mark.parametrize("early", ["aw", "w"])
def test_half_a_write_waits_for_the_other_half(seed: int, early: str) -> None:
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        ctx.set(getattr(dut.bus, f"{early}valid"), 1)
        for _ in range(Random(seed).randint(1, 5)):
            await ctx.tick()
            assert not ctx.get(dut.bus.awready) and not ctx.get(dut.bus.wready)

    run(dut, testbench)


def test_a_pending_response_blocks_further_transfers(seed: int) -> None:
    """While a response is not taken, no second write or read is accepted."""
    rng = Random(seed)
    dut = Registers(table_lanes=True, random_rounding=True, encoder=8, ports=MOST_PORTS)

    async def testbench(ctx: Any) -> None:
        ctx.set(dut.identity, 0xABCD)
        ctx.set(dut.bus.arvalid, 1)
        ctx.set(dut.bus.araddr, REGISTERS["identity"].offset)
        for name in ("awvalid", "wvalid"):
            ctx.set(getattr(dut.bus, name), 1)
        ctx.set(dut.bus.awaddr, REGISTERS["phase"].offset)
        ctx.set(dut.bus.wdata, 1)
        ctx.set(dut.bus.wstrb, 0xF)
        await ctx.tick()
        ctx.set(dut.bus.araddr, REGISTERS["version"].offset)
        await ctx.tick()
        ctx.set(dut.bus.wdata, 2)
        for _ in range(READ_LATENCY - 2):
            assert not ctx.get(dut.bus.arready)
            await ctx.tick()
        for _ in range(rng.randint(2, 10)):
            assert ctx.get(dut.phase) == 1
            assert ctx.get(dut.bus.bvalid) and not ctx.get(dut.bus.awready) and not ctx.get(dut.bus.wready)
            assert ctx.get(dut.bus.rvalid) and not ctx.get(dut.bus.arready)
            assert ctx.get(dut.bus.rdata) == 0xABCD
            await ctx.tick()

    run(dut, testbench)
