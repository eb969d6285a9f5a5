"""The levels of features, where they are kept and how they are looked up."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, MASTER
from bitlane.contract.layout import CHUNK, CODEBOOK_BITS, WORD_BITS, level_count
from bitlane_hw.common.fixed_point import delay_valid
from bitlane_hw.common.payloads import base_bits, digits_of_word, settings_layout


def level_port(config: AcceleratorConfig) -> wiring.Signature:
    """A port of the tables, from the reader's side: a place for each lane, and a cycle later the levels there."""
    return wiring.Signature(
        {"addresses": Out(_address_bits(config) * CHUNK), "levels": In(LEVEL.bits * CHUNK)},
    )


def code_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A word of a row: of half digits (`half`), of draws (`draw`) or, where it is neither, of base digits."""
    return data.StructLayout({"word": WORD_BITS, "chunk": range(config.max_chunks), "half": 1, "draw": 1})


def place(config: AcceleratorConfig, settings: Value, chunk: Value) -> Value:
    """Where the levels of a chunk begin in every lane's table: chunk * (2 << base bits)."""
    return (chunk << base_bits(settings) << 1)[: _address_bits(config)]


def _address_bits(config: AcceleratorConfig) -> int:
    return (config.level_slots - 1).bit_length()


class LevelTables(wiring.Component):
    """For each lane a memory of `level_slots` levels with two ports; while a level is loaded, the first writes.

    A level may be read in the cycle after its `load`. A read takes a cycle.

    Members
    -------
    settings: In, the run.
    load, chunk, level, loaded: In, a level of a chunk's 32 features, 32 bits each, of which the lower ones count.
    dot, gradient: In, `level_port`; of the first nothing is read while `load`.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "load": In(1),
                "chunk": In(range(config.max_chunks)),
                "level": In(range(level_count(max(CODEBOOK_BITS)))),
                "loaded": In(MASTER.bits * CHUNK),
                "dot": In(level_port(config)),
                "gradient": In(level_port(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, bits = self._config, _address_bits(self._config)
        written = Signal(bits)
        m.d.comb += written.eq(place(config, self.settings, self.chunk) | self.level)
        for j in range(CHUNK):
            m.submodules[f"table_{j}"] = table = memory.Memory(shape=LEVEL.bits, depth=config.level_slots, init=[])
            write, dot, gradient = table.write_port(), table.read_port(), table.read_port()
            # One address for the write and the first read, so that both are a port of a block RAM.
            address = Signal(bits, name=f"address_{j}")
            m.d.comb += [
                address.eq(Mux(self.load, written, self.dot.addresses.word_select(j, bits))),
                write.en.eq(self.load),
                write.addr.eq(address),
                write.data.eq(self.loaded.word_select(j, MASTER.bits)),
                dot.addr.eq(address),
                self.dot.levels.word_select(j, LEVEL.bits).eq(dot.data),
                gradient.addr.eq(self.gradient.addresses.word_select(j, bits)),
                self.gradient.levels.word_select(j, LEVEL.bits).eq(gradient.data),
            ]
        return m


class LevelLookup(wiring.Component):
    """The places of both levels that a chunk's draws chose, of all 32 features: code + u1, then code + u2.

    A cycle after a draw word the first ones, another cycle later the second ones; so draws come two cycles apart at
    least, and behind the chunk's other words. No backpressure.

    Members
    -------
    settings: In, the run.
    codes: In, stream of `code_layout`, always ready.
    addresses: Out, of `level_port`.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "codes": In(stream.Signature(code_layout(config), always_ready=True)),
                "addresses": Out(_address_bits(config) * CHUNK),
            }
        )

    def elaborate(self, platform):
        m = Module()
        settings, codes, bits = self.settings, self.codes.payload, _address_bits(self._config)
        halves = Signal(WORD_BITS)
        base = Signal(digits_of_word)
        draws = Signal(digits_of_word)
        begin = Signal(bits)
        draw = self.codes.valid & codes.draw
        with m.If(self.codes.valid & codes.half):
            m.d.sync += halves.eq(codes.word)
        with m.If(self.codes.valid & ~codes.half & ~codes.draw):
            m.d.sync += base.eq(codes.word)
        with m.If(draw):
            m.d.sync += [draws.eq(codes.word), begin.eq(place(self._config, settings, codes.chunk))]
        first = delay_valid(m, draw, 1, "first")[0]
        for j in range(CHUNK):
            half = settings.half & Mux(codes.chunk[0], halves[CHUNK + j], halves[j])
            code = Signal(range(level_count(max(CODEBOOK_BITS)) - 1), name=f"code_{j}")
            with m.If(draw):
                m.d.sync += code.eq(Mux(settings.base_digits[0], Cat(base[j], half), half))
            level = code + Mux(first, draws[j].high, draws[j].low)
            m.d.comb += self.addresses.word_select(j, bits).eq(begin | level)
        return m
