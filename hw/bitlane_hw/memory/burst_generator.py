"""Which bursts to ask the memory for, and when."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import BURST_BEATS, CODEBOOK_BITS, level_count
from bitlane_hw.common.fixed_point import add_with_carry, register
from bitlane_hw.common.payloads import Kind, token_layout

BASE, DRAW = 0, 1  # the two streams, and the AXI IDs of their bursts


def region_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Where a stream's sets lie: set i has `beats` beats from `address + i * stride`."""
    return data.StructLayout(
        {"address": config.address_bits, "stride": config.address_bits, "beats": config.address_bits - 3}
    )


def burst_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A read burst: address, beats (1 to 16), stream."""
    return data.StructLayout({"address": config.address_bits, "beats": range(BURST_BEATS + 1), "stream": 1})


class StreamCursor(wiring.Component):
    """Cuts one stream's regions, set after set, into bursts of at most 16 beats.

    A burst ends at a multiple of 16 beats or at the end of its set, so that none crosses 4 KiB.
    `address` and `beats` are the next one; `advance` takes it. The first region is `first` (the models, for the base
    stream).

    Members
    -------
    first: In, address and beats of what precedes set 0 (none where beats is 0).
    region: In, the sets.
    draw_sets: In(32), number of sets; after the last comes set 0 again.
    load: In(1), begin anew with `first`; a cycle or more after `sets`.
    advance: In(1), the burst is taken.
    address, beats: Out, the next burst.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "first": In(region_layout(config)),
                "region": In(region_layout(config)),
                "draw_sets": In(32),
                "load": In(1),
                "advance": In(1),
                "address": Out(config.address_bits),
                "beats": Out(range(BURST_BEATS + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        region = self.region
        line = self._config.beat_bytes * BURST_BEATS
        low = line.bit_length() - 1  # address bits within 16 beats
        to_end = Signal(range(2 * BURST_BEATS))  # beats to the set's end, modulo 32
        to_boundary = Signal(range(BURST_BEATS + 1))
        lines_left = Signal(signed(len(region.beats)))  # of 16 beats, behind the next: negative in a set's last
        sets_left = Signal(signed(len(self.draw_sets) + 1))  # behind the next one: negative where set 0 follows it
        next_address = Signal.like(region.address)

        ends_set = lines_left[-1]
        all_sets = register(m, self.draw_sets - 2, "all_sets")
        m.d.comb += self.beats.eq(Mux(ends_set, to_end, to_boundary))

        has_first = self.first.beats.any()
        begins = self.load | (self.advance & ends_set)
        address = Mux(self.load, Mux(has_first, self.first.address, region.address), next_address)
        beats = Mux(self.load & has_first, self.first.beats, region.beats)
        position = address[:low] // self._config.beat_bytes
        shorter = Array(Const(p - (BURST_BEATS + 1), signed(6)) for p in range(BURST_BEATS))[position]
        with m.If(begins):
            m.d.sync += [
                self.address.eq(address),
                to_end.eq(beats),
                to_boundary.eq(BURST_BEATS - position),
                lines_left.eq((beats + shorter) // BURST_BEATS),
            ]
        with m.Elif(self.advance):
            m.d.sync += [
                self.address.eq(Cat(Const(0, low), self.address[low:] + 1)),
                to_end.eq(to_end - to_boundary),
                to_boundary.eq(BURST_BEATS),
                lines_left.eq(lines_left - 1),
            ]

        sets_behind = Mux(self.load, all_sets, sets_left)
        with m.If(begins):
            m.d.sync += [next_address.eq(address + region.stride), sets_left.eq(sets_behind - 1)]
            with m.If((self.load & has_first) | sets_behind[-1]):
                m.d.sync += [next_address.eq(region.address), sets_left.eq(all_sets)]
        return m


class BurstGenerator(wiring.Component):
    """Asks for bursts in the order in which their first beats are needed.

    Follows a walker; a beat that the last burst of its stream covers passes at once, another waits until
    its stream has room for 16 beats (credits) and the burst port is free. So at most one burst a cycle, and no
    beat ever waits behind more than two bursts that are needed later.

    Members
    -------
    enable: In(1), go on; once low no new burst is asked for.
    tokens: In, the walker's stream.
    load: In(1), begin a run. model, chunks, regions, draw_sets: In, where its beats lie; with tables
        level_chunks: chunks of all their levels.
    bursts: Out, stream of `burst_layout`; payload stable until taken.
    returned: In(1) a stream, a beat has left the stream's FIFO.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        all_levels = config.max_chunks * level_count(max(CODEBOOK_BITS))
        levels = {"level_chunks": In(range(all_levels + 1))} if config.table_lanes else {}
        super().__init__(
            {
                "enable": In(1),
                "load": In(1),
                "tokens": In(stream.Signature(token_layout(config))),
                "model": In(config.address_bits),
                "chunks": In(range(config.max_chunks + 1)),
                **levels,
                "regions": In(region_layout(config)).array(2),
                "draw_sets": In(32),
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
        first_beats = self.chunks * (config.outputs * config.chunk_beats)
        if config.table_lanes:
            first_beats += self.level_chunks * config.chunk_beats
        m.d.comb += [base.first.address.eq(self.model), base.first.beats.eq(first_beats)]
        covered = [Signal(range(BURST_BEATS), name=f"covered_{i}") for i in (BASE, DRAW)]
        room = range(-BURST_BEATS, config.fifo_beats - BURST_BEATS + 1)  # for beats, besides a whole burst
        rooms = [Signal(room, init=room[-1], name=f"room_{i}") for i in (BASE, DRAW)]

        which = Signal()
        request = Signal()
        beats = Array(cursor.beats for cursor in cursors)[which]
        is_covered = Array(count.any() for count in covered)[which]
        has_room = Array(~room[-1] for room in rooms)[which]
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
                bursts.payload.beats.eq(beats),
                bursts.payload.stream.eq(which),
            ]
        for i, cursor in enumerate(cursors):
            mine = which == i
            m.d.comb += [
                cursor.region.eq(self.regions[i]),
                cursor.draw_sets.eq(self.draw_sets),
                cursor.load.eq(self.load),
                cursor.advance.eq(request & mine),
            ]
            less = Mux(request & mine, -cursor.beats, 0)
            m.d.sync += rooms[i].eq(add_with_carry(rooms[i], less, self.returned[i]))
            with m.If(request & mine):
                m.d.sync += covered[i].eq(beats - 1)
            with m.Elif(self.tokens.valid & self.tokens.ready & mine):
                m.d.sync += covered[i].eq(covered[i] - 1)
        return m
