"""The model: master weights that updates accumulate in, and the copy that dot products read."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER, WEIGHT
from bitlane.contract.layout import CHUNK

ROUNDED = ("rounded_publish", "rounded_address", "rounded_bank", "rounded_masters")


class Weights(wiring.Component):
    """Two memories of a word a chunk: 32 master weights, 32 published ones (the masters' top 24 bits).

    With staleness 1 the published weights lie in two banks, each of half the chunks; otherwise in bank 0 alone, which
    then has them all. Reads take a cycle and give the old word when the same one is written in that cycle.

    Members
    -------
    write, write_address, masters: In, new master weights of a chunk.
    publish, write_bank: In(1), with `write`: into the published copy too, in this bank.
    master_address, master: In/Out, read port of the masters.
    published_address, read_bank, published: In/Out, read port of the copy.
    rounded_...: In, with random rounding: what is published, which comes later than it is written.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        address = range(config.max_chunks)
        rounded = (1, address, 1, MASTER.bits * CHUNK)
        super().__init__(
            {
                **(
                    {name: In(shape) for name, shape in zip(ROUNDED, rounded, strict=True)}
                    if config.random_rounding
                    else {}
                ),
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
            return Cat(address[:-1], address[-1] | bank)

        copy = (self.write & self.publish, self.write_address, self.write_bank, self.masters)
        if self._config.random_rounding:
            copy = tuple(getattr(self, name) for name in ROUNDED)
        publish, address, bank, masters = copy
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
