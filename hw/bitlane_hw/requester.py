"""Which bursts to ask the memory for, and when."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import BURST_WORDS, CHUNK_MODEL_WORDS, WORD_BYTES
from .payloads import Kind, token_layout

BASE, DRAW = 0, 1  # the two streams, and the AXI IDs of their bursts


def region_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Where a stream's sets lie: set i has `words` words from `address + i * stride`."""
    return data.StructLayout(
        {"address": config.address_bits, "stride": config.address_bits, "words": config.address_bits - 3}
    )


def burst_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A read burst: address, words (1 to 16), stream."""
    return data.StructLayout({"address": config.address_bits, "words": range(BURST_WORDS + 1), "stream": 1})


class StreamCursor(wiring.Component):
    """Cuts one stream's regions, set after set, into bursts of at most 16 words.

    A burst ends at a multiple of 128 bytes or at the end of its set, so that none crosses 4 KiB.
    `burst` is the next one; `advance` takes it. The first region is `first` (the model, for the base stream).

    Members
    -------
    first: In, address and words of what precedes set 0 (none where words is 0).
    region: In, the sets.
    sets: In(32), number of sets; after the last comes set 0 again.
    load: In(1), begin anew with `first`.
    advance: In(1), the burst is taken.
    address, words: Out, the next burst.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "first": In(region_layout(config)),
                "region": In(region_layout(config)),
                "sets": In(32),
                "load": In(1),
                "advance": In(1),
                "address": Out(config.address_bits),
                "words": Out(range(BURST_WORDS + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        region = self.region
        remaining = Signal.like(region.words)
        next_index = Signal(32)
        next_address = Signal.like(region.address)

        to_boundary = Signal(range(BURST_WORDS + 1))
        position = self.address // WORD_BYTES % BURST_WORDS
        ends_set = Signal()
        m.d.comb += [
            to_boundary.eq(BURST_WORDS - position),
            ends_set.eq(remaining <= to_boundary),
            self.words.eq(Mux(ends_set, remaining, to_boundary)),
        ]

        def begin_set(index, address):
            m.d.sync += [self.address.eq(address), remaining.eq(region.words)]
            with m.If(index == self.sets - 1):
                m.d.sync += [next_index.eq(0), next_address.eq(region.address)]
            with m.Else():
                m.d.sync += [next_index.eq(index + 1), next_address.eq(address + region.stride)]

        with m.If(self.load & (self.first.words != 0)):
            m.d.sync += [
                self.address.eq(self.first.address),
                remaining.eq(self.first.words),
                next_index.eq(0),
                next_address.eq(region.address),
            ]
        with m.Elif(self.load):
            begin_set(0, region.address)
        with m.Elif(self.advance & ends_set):
            begin_set(next_index, next_address)
        with m.Elif(self.advance):
            m.d.sync += [
                self.address.eq(self.address + self.words * WORD_BYTES),
                remaining.eq(remaining - self.words),
            ]
        return m


class Requester(wiring.Component):
    """Asks for bursts in the order in which their first words are needed.

    Follows a walker; a word that the last burst of its stream covers passes at once, another waits until
    its stream has room for 16 words (credits) and the burst port is free. So at most one burst a cycle, and no
    word ever waits behind more than two bursts that are needed later.

    Members
    -------
    enable: In(1), go on; once low no new burst is asked for.
    tokens: In, the walker's stream.
    load: In(1), begin a run. model, chunks, regions, sets: In, where its words lie.
    bursts: Out, stream of `burst_layout`; payload stable until taken.
    returned: In(1) a stream, a word has left the stream's FIFO.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "enable": In(1),
                "load": In(1),
                "tokens": In(stream.Signature(token_layout(config))),
                "model": In(config.address_bits),
                "chunks": In(range(config.max_chunks + 1)),
                "regions": In(region_layout(config)).array(2),
                "sets": In(32),
                "bursts": Out(stream.Signature(burst_layout(config))),
                "returned": In(1).array(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, bursts = self._config, self.bursts
        m.submodules.base = base = StreamCursor(config)
        m.submodules.draw = draw = StreamCursor(config)
        cursors = (base, draw)
        m.d.comb += [
            base.first.address.eq(self.model),
            base.first.words.eq(self.chunks * CHUNK_MODEL_WORDS),
        ]
        covered = [Signal(range(BURST_WORDS), name=f"covered_{i}") for i in (BASE, DRAW)]
        credits = [
            Signal(range(config.fifo_words + 1), init=config.fifo_words, name=f"credits_{i}") for i in (BASE, DRAW)
        ]

        which = Signal()
        request = Signal()
        words = Array(cursor.words for cursor in cursors)[which]
        is_covered = Array(count != 0 for count in covered)[which]
        has_room = Array(count >= BURST_WORDS for count in credits)[which]
        port_free = ~bursts.valid | bursts.ready
        m.d.comb += [
            which.eq(self.tokens.payload.kind == Kind.DRAW),
            request.eq(self.enable & self.tokens.valid & ~is_covered & has_room & port_free),
            self.tokens.ready.eq(self.enable & (is_covered | (has_room & port_free))),
        ]
        with m.If(bursts.ready):
            m.d.sync += bursts.valid.eq(0)
        with m.If(request):
            m.d.sync += [
                bursts.valid.eq(1),
                bursts.payload.address.eq(Array(cursor.address for cursor in cursors)[which]),
                bursts.payload.words.eq(words),
                bursts.payload.stream.eq(which),
            ]
        for i, cursor in enumerate(cursors):
            mine = which == i
            m.d.comb += [
                cursor.region.eq(self.regions[i]),
                cursor.sets.eq(self.sets),
                cursor.load.eq(self.load),
                cursor.advance.eq(request & mine),
            ]
            m.d.sync += credits[i].eq(credits[i] - Mux(request & mine, words, 0) + self.returned[i])
            with m.If(request & mine):
                m.d.sync += covered[i].eq(words - 1)
            with m.Elif(self.tokens.valid & self.tokens.ready & mine):
                m.d.sync += covered[i].eq(covered[i] - 1)
        return m
