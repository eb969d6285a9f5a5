"""The model: master weights that the updates accumulate in, and the published copy that dot products read."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER, WEIGHT
from bitlane.contract.layout import CHUNK
from bitlane_hw.common.signatures import PublishedChunk


class Weights(wiring.Component):
    """Store the master weights and the published weights in two memories with a word of 32 weights for each chunk.

    Published weights are the top 24 bits of the masters. With staleness 1 they occupy two banks of half the chunks
    each; otherwise bank 0 holds all chunks. Latency: a read takes one cycle, and returns the old word if the same word
    is written in that cycle. Throughput: one read and one write of each memory a cycle. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    write : 1 bit, in
        Write the masters of a chunk.
    write_address : unsigned, in
        That chunk.
    masters : 32 values of format MASTER, in
        Its weights.
    publish : 1 bit, in
        With `write`: write the published copy too.
    write_bank : 1 bit, in
        Bank of the published copy to write.
    master_address : unsigned, in
        Chunk to read from the masters.
    master : 32 values of format MASTER, out
        Its weights, one cycle later.
    published_address : unsigned, in
        Chunk to read from the published copy.
    read_bank : 1 bit, in
        Bank to read from.
    published : 32 values of format WEIGHT, out
        Published weights, one cycle later.
    rounded : PublishedChunk, in
        What to publish instead of the masters, which are earlier. Only with random rounding.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        address = range(config.max_chunks)
        super().__init__(
            {
                **({"rounded": In(PublishedChunk(config))} if config.random_rounding else {}),
                "write": In(1),
                "write_address": In(address),
                "masters": In(MASTER.bits * CHUNK),
                "publish": In(1),
                "write_bank": In(1),
                "master_address": In(address),
                "master": Out(MASTER.bits * CHUNK),
                "published_address": In(address),
                "read_bank": In(1),
                "published": Out(WEIGHT.bits * CHUNK),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._config.max_chunks

        def store(name, bits, enable, address, data, read_address, out):
            """Create a memory with one write port and one read port."""
            m.submodules[name] = words = memory.Memory(shape=bits * CHUNK, depth=depth, init=[])
            write, read = words.write_port(), words.read_port()
            m.d.comb += [
                write.en.eq(enable),
                write.addr.eq(address),
                write.data.eq(data),
                read.addr.eq(read_address),
                out.eq(read.data),
            ]

        def banked(address, bank):
            """Return the address of a chunk in a bank."""
            return Cat(address[:-1], address[-1] | bank)

        publish, address, bank, masters = self.write & self.publish, self.write_address, self.write_bank, self.masters
        if self._config.random_rounding:
            rounded = self.rounded
            publish, address, bank, masters = rounded.publish, rounded.address, rounded.bank, rounded.masters
        published = [masters.word_select(j, MASTER.bits)[MASTER.bits - WEIGHT.bits :] for j in range(CHUNK)]
        store(
            "masters_memory",
            MASTER.bits,
            self.write,
            self.write_address,
            self.masters,
            self.master_address,
            self.master,
        )
        store(
            "published_memory",
            WEIGHT.bits,
            publish,
            banked(address, bank),
            Cat(*published),
            banked(self.published_address, self.read_bank),
            self.published,
        )
        return m
