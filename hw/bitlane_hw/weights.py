"""The model: master weights that updates accumulate in, and the copy that dot products read."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import CHUNK, MASTER, WEIGHT


class Weights(wiring.Component):
    """Two memories of a word a chunk: 32 master weights, 32 published ones (the masters' top 24 bits).

    Reads take a cycle and give the old word when the same one is written in that cycle.

    Members
    -------
    write, write_address, masters: In, new master weights of a chunk.
    publish: In(1), with `write`: into the published copy too.
    master_address, master: In/Out, read port of the masters.
    published_address, published: In/Out, read port of the copy.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        address = range(config.max_chunks)
        super().__init__(
            {
                "write": In(1),
                "write_address": In(address),
                "masters": In(MASTER.bits * CHUNK),
                "publish": In(1),
                "master_address": In(address),
                "master": Out(MASTER.bits * CHUNK),
                "published_address": In(address),
                "published": Out(WEIGHT.bits * CHUNK),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self._config.max_chunks

        def store(name, bits, enable, data, address, out):
            m.submodules[name] = words = memory.Memory(shape=bits * CHUNK, depth=depth, init=[])
            write, read = words.write_port(), words.read_port()
            m.d.comb += [
                write.en.eq(enable),
                write.addr.eq(self.write_address),
                write.data.eq(data),
                read.addr.eq(address),
                out.eq(read.data),
            ]

        published = [self.masters.word_select(j, MASTER.bits)[MASTER.bits - WEIGHT.bits :] for j in range(CHUNK)]
        store("masters_memory", MASTER.bits, self.write, self.masters, self.master_address, self.master)
        store(
            "published_memory",
            WEIGHT.bits,
            self.write & self.publish,
            Cat(*published),
            self.published_address,
            self.published,
        )
        return m
