"""The shift register between chunks of weights and words."""

from __future__ import annotations

from random import Random
from typing import Any

from bitlane_hw.model_port import ModelPort

from .support import CONFIG, run

WORDS = 16


def chunk_of(words: list[int]) -> int:
    return sum(word << (64 * i) for i, word in enumerate(words))


def test_gathering(seed: int) -> None:
    """A write in the cycle after every 16th word, chunk after chunk; the next words may follow at once."""
    rng = Random(seed)
    for rate in (1, 0.5):
        dut = ModelPort(CONFIG)

        async def testbench(ctx: Any, dut: ModelPort = dut, rate: float = rate) -> None:
            gathered: list[int] = []
            chunks = 0
            complete = False
            while chunks < CONFIG.max_chunks:
                valid = rng.random() < rate
                ctx.set(dut.words.valid, valid)
                ctx.set(dut.words.payload, word := rng.getrandbits(64))
                assert ctx.get(dut.write) == complete
                if complete:
                    assert ctx.get(dut.write_address) == chunks
                    assert ctx.get(dut.chunk) == chunk_of(gathered)
                    gathered = []
                    chunks += 1
                if valid:
                    gathered.append(word)
                complete = valid and len(gathered) == WORDS
                await ctx.tick()

        run(dut, testbench)


def test_sending(seed: int) -> None:
    rng = Random(seed)
    dut = ModelPort(CONFIG)

    async def testbench(ctx: Any) -> None:
        for _ in range(12):
            trace = rng.random() < 0.4
            words = [rng.getrandbits(64) for _ in range(2 if trace else WORDS)]
            ctx.set(dut.record if trace else dut.master, chunk_of(words))
            capture = dut.capture_trace if trace else dut.capture
            ctx.set(capture, 1)
            await ctx.tick()
            ctx.set(capture, 0)
            ctx.set(dut.record, rng.getrandbits(128))
            ctx.set(dut.master, rng.getrandbits(1024))
            for word in words:
                ready = False
                while not ready:
                    ready = rng.random() < 0.6
                    ctx.set(dut.out.ready, ready)
                    assert ctx.get(dut.out.payload) == word
                    assert not ctx.get(dut.write)
                    await ctx.tick()
            ctx.set(dut.out.ready, 0)

    run(dut, testbench)
