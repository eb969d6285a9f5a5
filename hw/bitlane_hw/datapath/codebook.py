"""Codebooks: the levels of the features, their storage and their addresses."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LEVEL, MASTER
from bitlane.contract.layout import CHUNK, CODEBOOK_BITS, WORD_BITS, level_count
from bitlane_hw.common.fixed_point import delay_valid
from bitlane_hw.common.payloads import base_bits, digits_of_word, settings_layout


def codebook_port(config: AcceleratorConfig) -> wiring.Signature:
    """Return a read port of the codebooks, seen from the reader.

    Members
    -------
    addresses : an address for each lane, out
        Slots to read.
    levels : a LEVEL for each lane, in
        Their levels, one cycle later.
    """
    return wiring.Signature(
        {"addresses": Out(_address_bits(config) * CHUNK), "levels": In(LEVEL.bits * CHUNK)},
    )


def code_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of a word of a row: half digits (`half_digit`), draws (`draw`), or else base digits."""
    return data.StructLayout({"word": WORD_BITS, "chunk": range(config.max_chunks), "half_digit": 1, "draw": 1})


def codebook_address(config: AcceleratorConfig, settings: Value, chunk: Value) -> Value:
    """Return the first slot of a chunk in the memory of each lane: chunk * (2 << base bits)."""
    return (chunk << base_bits(settings) << 1)[: _address_bits(config)]


def _address_bits(config: AcceleratorConfig) -> int:
    """Return the width of a slot number."""
    return (config.level_slots - 1).bit_length()


class CodebookMemory(wiring.Component):
    """Store the codebooks: a memory of `level_slots` levels with two ports for each of the 32 lanes.

    Level k of the feature of a lane in chunk c is in slot c * (2 << base bits) + k. The first port writes while a level
    is loaded, so that it cannot read then.

    Latency: a read takes one cycle; a level can be read one cycle after its `load`. Throughput: two reads of each lane
    a cycle. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with table lanes.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    load : 1 bit, in
        Write a level of the 32 features of a chunk.
    chunk : unsigned, in
        The chunk to write.
    level : unsigned, in
        Index of the level to write.
    loaded : 32 words of 32 bits, in
        The level of each feature, in the low LEVEL.bits bits of its word.
    dot : codebook_port, in
        Port of the dot product. Reads nothing while `load`.
    gradient : codebook_port, in
        Port of the gradient.
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
                "dot": In(codebook_port(config)),
                "gradient": In(codebook_port(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, bits = self._config, _address_bits(self._config)
        written = Signal(bits)
        m.d.comb += written.eq(codebook_address(config, self.settings, self.chunk) | self.level)
        for j in range(CHUNK):
            m.submodules[f"lane_{j}"] = levels = memory.Memory(shape=LEVEL.bits, depth=config.level_slots, init=[])
            write, dot, gradient = levels.write_port(), levels.read_port(), levels.read_port()
            # One address for the write and the first read: together they are one port of a block RAM.
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


class CodebookLookup(wiring.Component):
    """Compute the slots of both levels that the draws of a chunk selected, for its 32 features.

        first address = codebook_address(chunk) + code + u1,    second address = codebook_address(chunk) + code + u2

    Latency: the first addresses are valid one cycle after a draw word, the second ones two cycles after it. Throughput:
    a draw word in two cycles; draw words must be at least two cycles apart and follow the other words of their chunk.
    No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with table lanes.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    codes : stream of code_layout, in, always ready
        The words of a row.
    addresses : an address for each lane, out
        Slots to read, as in `codebook_port`.
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
        half_digits = Signal(WORD_BITS)
        base = Signal(digits_of_word)
        draws = Signal(digits_of_word)
        begin = Signal(bits)  # first slot of the chunk
        draw = self.codes.valid & codes.draw
        with m.If(self.codes.valid & codes.half_digit):
            m.d.sync += half_digits.eq(codes.word)
        with m.If(self.codes.valid & ~codes.half_digit & ~codes.draw):
            m.d.sync += base.eq(codes.word)
        with m.If(draw):
            m.d.sync += [draws.eq(codes.word), begin.eq(codebook_address(self._config, settings, codes.chunk))]
        first = delay_valid(m, draw, 1, "first")[0]
        for j in range(CHUNK):
            half_digit = settings.half_digit & Mux(codes.chunk[0], half_digits[CHUNK + j], half_digits[j])
            code = Signal(range(level_count(max(CODEBOOK_BITS)) - 1), name=f"code_{j}")
            with m.If(draw):
                m.d.sync += code.eq(Mux(settings.base_digits[0], Cat(base[j], half_digit), half_digit))
            level = code + Mux(first, draws[j].high, draws[j].low)
            m.d.comb += self.addresses.word_select(j, bits).eq(begin | level)
        return m
