"""The accelerator in the simulator of Amaranth, as a device of the driver: slow, but without compilation."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.registers import REGISTERS, STATUS_BUSY
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.memory.axi import memory_names
from bitlane_sim.rtl.allocator import FreeList

BASE = 0x1000_0000
CAPACITY = 1 << 20
STATUS = REGISTERS["status"].offset
POLL = 2000  # cycles that pass when the status of a busy device is read
OKAY, SLAVE_ERROR = 0, 2


class SlowBuffer:
    """Words of the memory, and a copy for the host."""

    def __init__(self, free_list: FreeList, words: int):
        self._free_list = free_list
        self.device_address = free_list.take(8 * words)
        self.array = np.zeros(words, np.uint64)

    @property
    def words(self) -> slice:
        first = (self.device_address - BASE) // 8
        return slice(first, first + self.array.size)

    def free(self) -> None:
        self._free_list.give(self.device_address)


class _Memory:
    """What a port reaches: the words from an address on, without those of other ports."""

    def __init__(self, device: SlowDevice, timing: MemoryTiming, base: int, words: np.ndarray, read: Any, write: Any):
        self._device = device
        self._timing = timing
        self._base = base
        self._content = words
        self._read, self._write = read, write
        self._beat_words = len(read.rdata) // 64
        self._rng = Random(base)
        self._reads: deque[list[int]] = deque()  # address, beats left, id, first cycle of its data
        self._writes: deque[list[int]] = deque()  # address, beats left, first cycle of its response
        self._words: deque[tuple[int, int, int]] = deque()  # data, strobes and last of beats without an address
        self._offered: dict[str, Any] = {}  # offers that were not taken in the last cycle

    @property
    def busy(self) -> bool:
        return bool(self._reads or self._writes)

    def cycle(self, ctx: Any) -> None:
        """Take and answer transfers in this cycle."""
        self._read_port(ctx, self._read)
        self._write_port(ctx, self._write)

    def _ready(self) -> bool:
        return self._rng.random() >= self._device.stalls

    def _response(self, channel: str) -> int:
        if self._device.fails != channel:
            return OKAY
        self._device.fails = ""
        return SLAVE_ERROR

    def _stable(self, ctx: Any, name: str, taken: bool, valid: Any, *payload: Any) -> bool:
        """Return whether a channel of the accelerator transfers; an offer must not change until it is taken."""
        offer = [ctx.get(signal) for signal in payload] if ctx.get(valid) else None
        if self._offered.get(name):
            assert offer == self._offered[name], name
        self._offered[name] = None if taken else offer
        return bool(offer) and taken

    def _check(self, address: int, length: int, size: int, burst: int) -> None:
        nbytes = 8 * self._beat_words
        assert 1 << size == nbytes and burst == 1 and length < 16
        assert address % nbytes == 0 and address % 4096 + (length + 1) * nbytes <= 4096
        assert address >= self._base and address + (length + 1) * nbytes <= self._base + self._content.nbytes

    def _read_port(self, ctx: Any, axi: Any) -> None:
        ready = self._ready()
        ctx.set(axi.arready, ready)
        due = self._reads and self._reads[0][3] <= self._device.cycles and self._ready()
        if due:
            address, left, name, _ = burst = self._reads[0]
            words = self._content[(address - self._base) // 8 :][: self._beat_words]
            ctx.set(axi.rdata, int.from_bytes(words.tobytes(), "little"))
            ctx.set(axi.rid, name)
            ctx.set(axi.rresp, self._response("r"))
            ctx.set(axi.rlast, left == 1)
            assert ctx.get(axi.rready)
            burst[:2] = address + 8 * self._beat_words, left - 1
            if left == 1:
                self._reads.popleft()
        ctx.set(axi.rvalid, bool(due))
        if self._stable(ctx, "ar", ready, axi.arvalid, axi.araddr, axi.arlen, axi.arsize, axi.arburst, axi.arid):
            address, length, size, burst_type = map(ctx.get, (axi.araddr, axi.arlen, axi.arsize, axi.arburst))
            self._check(address, length, size, burst_type)
            self._reads.append(
                [address, length + 1, ctx.get(axi.arid), self._device.cycles + self._timing.read_latency]
            )

    def _write_port(self, ctx: Any, axi: Any) -> None:
        address_ready, data_ready = self._ready(), self._ready()
        ctx.set(axi.awready, address_ready)
        ctx.set(axi.wready, data_ready)
        due = self._writes and not self._writes[0][1] and self._writes[0][2] <= self._device.cycles and self._ready()
        ctx.set(axi.bvalid, bool(due))
        if due:
            ctx.set(axi.bresp, self._response("b"))
            assert ctx.get(axi.bready)
            self._writes.popleft()
        if self._stable(ctx, "aw", address_ready, axi.awvalid, axi.awaddr, axi.awlen, axi.awsize, axi.awburst):
            address, length, size, burst = map(ctx.get, (axi.awaddr, axi.awlen, axi.awsize, axi.awburst))
            self._check(address, length, size, burst)
            self._writes.append([address, length + 1, 0])
        if self._stable(ctx, "w", data_ready, axi.wvalid, axi.wdata, axi.wstrb, axi.wlast):
            self._words.append(tuple(map(ctx.get, (axi.wdata, axi.wstrb, axi.wlast))))
        while self._words and (burst := next((burst for burst in self._writes if burst[1]), None)):
            self._store(burst, *self._words.popleft())

    def _store(self, burst: list[int], data: int, strobe: int, last: int) -> None:
        """Write a beat of a burst to memory."""
        assert strobe == (1 << 8 * self._beat_words) - 1 and last == (burst[1] == 1)
        words = (burst[0] - self._base) // 8
        self._content[words : words + self._beat_words] = np.frombuffer(
            data.to_bytes(8 * self._beat_words, "little"), np.uint64
        )
        burst[:] = burst[0] + 8 * self._beat_words, burst[1] - 1, self._device.cycles + self._timing.write_latency


class SlowDevice:
    """The accelerator with a memory on each port that checks the AXI rules in every cycle. Each stalls apart.

    `stalls` is the probability that a channel of the memory stalls in a cycle. `fails` names the channel ("r" or "b")
    whose next response is an error.
    """

    name = "slow"
    capacity_bytes = CAPACITY

    def __init__(self, config: AcceleratorConfig, timing: MemoryTiming):
        part = CAPACITY // config.ports
        self.free_lists = [FreeList(BASE + port * part, part) for port in range(config.ports)]
        self.stalls = 0.0
        self.fails = ""
        self.cycles = 0
        self._memory = np.zeros(CAPACITY // 8, np.uint64)
        self._wanted: tuple[int, int | None] | int | None = None  # a register access, or a number of cycles
        self._answer = 0
        self._dut = Accelerator(config)
        self._memories = [
            _Memory(
                *(self, timing, BASE + port * part, self._memory[port * part // 8 :][: part // 8]),
                *(getattr(self._dut, f"{name}_{half}") for half in ("read", "write")),
            )
            for port, name in enumerate(memory_names(config))
        ]
        self._simulator = Simulator(self._dut)
        self._simulator.add_clock(1e-6)
        self._simulator.add_testbench(self._testbench)

    # --- the interface of the driver
    def read(self, offset: int) -> int:
        value = self._do((offset, None))
        if offset == STATUS and value & STATUS_BUSY:
            self.run(POLL)
            value = self._do((offset, None))
        return value

    def write(self, offset: int, value: int) -> None:
        self._do((offset, value))

    def run(self, cycles: int) -> None:
        """Simulate until irq is high, at most `cycles` cycles."""
        self._do(cycles)

    def wait(self, cycles: int) -> None:
        """Return at once: time passes when STATUS is read."""

    def allocate(self, nbytes: int, port: int = 0) -> SlowBuffer:
        return SlowBuffer(self.free_lists[port], -(-nbytes // 8))

    def flush(self, buffer: SlowBuffer) -> None:
        self._memory[buffer.words] = buffer.array

    def invalidate(self, buffer: SlowBuffer) -> None:
        buffer.array[:] = self._memory[buffer.words]

    def close(self) -> None:
        pass

    def _do(self, wanted: tuple[int, int | None] | int) -> int:
        self._wanted = wanted
        while self._wanted is not None:
            self._simulator.advance()
        return self._answer

    # --- the hardware
    async def _testbench(self, ctx: Any) -> None:
        ctx.set(self._dut.s_axi.wstrb, 0xF)
        while True:
            if isinstance(self._wanted, tuple):
                offset, value = self._wanted
                await (self._read(ctx, offset) if value is None else self._write(ctx, offset, value))
            elif self._wanted is not None:
                for _ in range(self._wanted):
                    if ctx.get(self._dut.irq):
                        break
                    await self._cycle(ctx)
            self._wanted = None
            await self._cycle(ctx)

    async def _read(self, ctx: Any, offset: int) -> None:
        bus = self._dut.s_axi
        ctx.set(bus.araddr, offset)
        await self._until(ctx, bus.arvalid, bus.arready)
        await self._until(ctx, bus.rready, bus.rvalid, bus.rdata, bus.rresp)

    async def _write(self, ctx: Any, offset: int, value: int) -> None:
        bus = self._dut.s_axi
        ctx.set(bus.awaddr, offset)
        ctx.set(bus.wdata, value)
        ctx.set(bus.wvalid, 1)
        await self._until(ctx, bus.awvalid, bus.awready)
        ctx.set(bus.wvalid, 0)
        await self._until(ctx, bus.bready, bus.bvalid, bus.bresp, bus.bresp)

    async def _until(self, ctx: Any, mine: Any, theirs: Any, data: Any = None, response: Any = None) -> None:
        """Keep one side of a handshake high until the other side is high too."""
        ctx.set(mine, 1)
        for _ in range(20):
            done = ctx.get(theirs)
            if done and data is not None:
                self._answer = ctx.get(data)
                assert ctx.get(response) == OKAY
            await self._cycle(ctx)
            if done:
                break
        else:
            raise AssertionError("the register port does not respond")
        ctx.set(mine, 0)

    async def _cycle(self, ctx: Any) -> None:
        for memory in self._memories:
            memory.cycle(ctx)
        if ctx.get(self._dut.irq):
            assert not any(memory.busy for memory in self._memories), "done before the end of all transfers"
        self.cycles += 1
        await ctx.tick()
