"""The read bursts of a run: addresses, lengths and order."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import BURST_BEATS, CODEBOOK_BITS, level_count
from bitlane_hw.common.fixed_point import add_with_carry, register
from bitlane_hw.common.payloads import Kind, token_layout

BASE, DRAW = 0, 1  # indices of the two streams, and AXI IDs of their bursts


def region_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of the position of a stream: set i has `beats` beats from `address + i * stride` on."""
    return data.StructLayout(
        {"address": config.address_bits, "stride": config.address_bits, "beats": config.address_bits - 3}
    )


def burst_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the layout of a read burst: address, number of beats (1 to 16), and stream."""
    return data.StructLayout({"address": config.address_bits, "beats": range(BURST_BEATS + 1), "stream": 1})


class StreamCursor(wiring.Component):
    """Cut the regions of one stream, set after set, into bursts of at most 16 beats.

    A burst ends at a multiple of 16 beats or at the end of its set, so that no burst crosses a 4 KiB boundary.
    `address` and `beats` describe the next burst, and `advance` moves on to the one after it. If `first.beats` is not
    0, the region `first` precedes set 0.

    Latency: the next burst is valid one cycle after `load` or `advance`. Throughput: one burst a cycle.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    first : region_layout, in
        Region before set 0: the models in the base stream. Its `stride` is not used.
    region : region_layout, in
        The sets.
    draw_sets : 32 bits, in
        Number of sets. Set 0 follows the last set.
    load : 1 bit, in
        Start again with `first`. All other inputs must have their values two cycles before, but for `region.beats`.
    advance : 1 bit, in
        The burst was taken.
    address : address_bits, out
        Address of the next burst.
    beats : 0 to 16, out
        Length of the next burst.
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
        line = self._config.port_bytes * BURST_BEATS
        low = line.bit_length() - 1  # address bits below a multiple of 16 beats
        to_end = Signal(range(2 * BURST_BEATS))  # beats left in the set, modulo 32
        to_boundary = Signal(range(BURST_BEATS + 1))
        # Lines of 16 beats, and sets, after the current one: negative in the last one.
        lines_left = Signal(signed(len(region.beats)))
        sets_left = Signal(signed(len(self.draw_sets) + 1))
        next_address = Signal.like(region.address)

        ends_set = lines_left[-1]
        new_set = self.advance & ends_set
        m.d.comb += self.beats.eq(Mux(ends_set, to_end, to_boundary))
        load = self._load_values(m)

        address = Mux(self.load, load["address"], next_address)
        beats = Mux(self.load & load["has_first"], load["beats"], region.beats)
        line_offset = Mux(self.load, load["line_offset"], self._line_offset(next_address))
        with m.If(self.load | new_set):
            m.d.sync += [
                self.address.eq(address),
                to_end.eq(beats),
                to_boundary.eq(BURST_BEATS - self._position(address)),
                lines_left.eq((beats + line_offset) // BURST_BEATS),
            ]
        with m.Elif(self.advance):
            m.d.sync += [
                self.address.eq(Cat(Const(0, low), self.address[low:] + 1)),
                to_end.eq(to_end - to_boundary),
                to_boundary.eq(BURST_BEATS),
                lines_left.eq(lines_left - 1),
            ]
        with m.If(self.load):
            m.d.sync += [next_address.eq(load["next_address"]), sets_left.eq(load["sets_left"])]
        with m.Elif(new_set):
            m.d.sync += [next_address.eq(next_address + region.stride), sets_left.eq(sets_left - 1)]
            with m.If(sets_left[-1]):
                m.d.sync += [next_address.eq(region.address), sets_left.eq(load["all_sets"])]
        return m

    def _load_values(self, m):
        """Return the values that `load` takes, by name, from registers: they are constant by then."""
        region, first = self.region, self.first
        all_sets = register(m, self.draw_sets - 2, "all_sets")
        has_first = first.beats.any()
        stays = has_first | all_sets[-1]  # set 0 follows
        address = Mux(has_first, first.address, region.address)
        values = {
            "has_first": has_first,
            "beats": first.beats,
            "address": address,
            "line_offset": self._line_offset(address),
            "next_address": (region.address + Mux(stays, 0, region.stride))[: len(address)],
            "sets_left": Mux(stays, all_sets, all_sets - 1),
        }
        return {name: register(m, value, f"load_{name}") for name, value in values.items()} | {"all_sets": all_sets}

    def _position(self, address):
        """Return the index of the beat at an address among the 16 beats of its line."""
        return address[: (self._config.port_bytes * BURST_BEATS).bit_length() - 1] // self._config.port_bytes

    def _line_offset(self, address):
        """Return what to add to the beats of a set at an address for its lines after the first, in beats."""
        return Array(Const(p - (BURST_BEATS + 1), signed(6)) for p in range(BURST_BEATS))[self._position(address)]


class BurstGenerator(wiring.Component):
    """Request bursts in the order in which their first beats are needed.

    The block receives the tokens of an `AddressGenerator`. A token passes at once if the last burst of its stream
    covers its beat. Otherwise it waits until its stream has credits for 16 beats and the burst port is free, and then
    requests the next burst of the stream. No beat waits behind more than two bursts that are needed later.

    Latency: a burst is offered one cycle after its token. Throughput: one token and at most one burst a cycle.
    Backpressure: without credits or a free port the token waits.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    enable : 1 bit, in
        Accept tokens. While it is low, no new burst is requested.
    load : 1 bit, in
        Start a run.
    tokens : stream of token_layout, in
        The beats of the run, in order.
    model : address_bits, in
        Address of the models.
    chunks : unsigned, in
        Chunks of a row.
    level_chunks : unsigned, in
        Chunks of all levels of the codebooks. Only with table lanes.
    regions : array of 2 region_layout, in
        The regions of the base stream and of the draw stream.
    draw_sets : 32 bits, in
        Number of sets of each stream.
    bursts : stream of burst_layout, out
        Requested bursts.
    returned : array of 2 bits, in
        A beat has left the FIFO of this stream; its credit returns one cycle later.
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
        credit_range = range(-BURST_BEATS, config.fifo_beats - BURST_BEATS + 1)  # negative: no room for a full burst
        credits = [Signal(credit_range, init=credit_range[-1], name=f"credits_{i}") for i in (BASE, DRAW)]

        is_draw = Signal()
        request = Signal()
        beats = Array(cursor.beats for cursor in cursors)[is_draw]
        is_covered = Array(count.any() for count in covered)[is_draw]
        has_credit = Array(~count[-1] for count in credits)[is_draw]
        port_free = ~bursts.valid | bursts.ready
        m.d.comb += [
            is_draw.eq(self.tokens.payload.kind == Kind.DRAW),
            request.eq(self.enable & self.tokens.valid & ~is_covered & has_credit & port_free),
            self.tokens.ready.eq(self.enable & (is_covered | (has_credit & port_free))),
        ]
        with m.If(bursts.ready):
            m.d.sync += bursts.valid.eq(0)
        with m.If(request):
            m.d.sync += [
                bursts.valid.eq(1),
                bursts.payload.address.eq(Array(cursor.address for cursor in cursors)[is_draw]),
                bursts.payload.beats.eq(beats),
                bursts.payload.stream.eq(is_draw),
            ]
        for i, cursor in enumerate(cursors):
            selected = is_draw == i
            m.d.comb += [
                cursor.region.eq(self.regions[i]),
                cursor.draw_sets.eq(self.draw_sets),
                cursor.load.eq(self.load),
                cursor.advance.eq(request & selected),
            ]
            spent = Mux(request & selected, -cursor.beats, 0)
            returned = Signal(name=f"returned_before_{i}")
            m.d.sync += [
                returned.eq(self.returned[i]),
                credits[i].eq(add_with_carry(credits[i], spent, returned)),
            ]
            with m.If(request & selected):
                m.d.sync += covered[i].eq(beats - 1)
            with m.Elif(self.tokens.valid & self.tokens.ready & selected):
                m.d.sync += covered[i].eq(covered[i] - 1)
        return m
