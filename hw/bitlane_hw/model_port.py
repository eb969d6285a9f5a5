"""Between a chunk of 32 master weights and the 64-bit words of the memory."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import CHUNK, CHUNK_MODEL_WORDS, MASTER, TRACE_WORDS, WORD_BITS


class ModelPort(wiring.Component):
    """One shift register: gathers 16 words into a chunk to be written, or sends out what was put in it.

    Gathering: after every 16th word `write` is high for a cycle, chunk after chunk from 0.
    Sending: `capture` puts a chunk in, `capture_trace` an epoch's record; `out` then gives word after word,
    each until taken. The two uses never meet: a model is read before the first epoch, stored after one.

    Members
    -------
    words: In, stream of model words, always ready.
    write, write_address: Out, with `chunk`, the gathered weights.
    chunk: Out, the register.
    capture, master: In, 32 master weights to send.
    capture_trace, record: In, two words to send.
    out: Out, stream of words; always valid, the writer takes as many as it was asked for.
    """

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "words": In(stream.Signature(WORD_BITS, always_ready=True)),
                "write": Out(1),
                "write_address": Out(range(config.max_chunks)),
                "chunk": Out(MASTER.bits * CHUNK),
                "capture": In(1),
                "master": In(MASTER.bits * CHUNK),
                "capture_trace": In(1),
                "record": In(WORD_BITS * TRACE_WORDS),
                "out": Out(stream.Signature(WORD_BITS, always_valid=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = Signal(range(CHUNK_MODEL_WORDS))
        shifted = self.chunk[WORD_BITS:]
        top = (CHUNK_MODEL_WORDS - 1) * WORD_BITS

        m.d.comb += self.out.payload.eq(self.chunk[:WORD_BITS])
        m.d.sync += self.write.eq(0)
        with m.If(self.words.valid):
            m.d.sync += [
                self.chunk[:top].eq(shifted),
                self.chunk[top:].eq(self.words.payload),
                count.eq(count + 1),
                self.write.eq(count.all()),
            ]
        with m.Elif(self.capture):
            m.d.sync += self.chunk.eq(self.master)
        with m.Elif(self.capture_trace):
            m.d.sync += self.chunk[: len(self.record)].eq(self.record)
        with m.Elif(self.out.ready):
            m.d.sync += self.chunk[:top].eq(shifted)
        with m.If(self.write):
            m.d.sync += self.write_address.eq(self.write_address + 1)
        return m
