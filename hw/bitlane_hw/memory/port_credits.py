"""Beats of several memory ports, taken without waiting for an answer of the ports."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import PORT_CROSSING
from bitlane_hw.common.expectations import expect
from bitlane_hw.common.fixed_point import delay, delay_valid

from .burst_generator import BASE, DRAW


class PortCredits(wiring.Component):
    """Count the beats that have arrived at each port, and take them from all ports at once.

    On a large chip the ports are far from each other. So nothing passes between them and the sequencer without a
    register: a port reports each beat that it stores, PORT_CROSSING cycles later that is a credit, and a beat can be
    taken while all ports have a credit. The take arrives PORT_CROSSING cycles later at the ports, and their words as
    many cycles later again.

    A beat can be taken as soon as it is counted, because a FIFO offers a beat sooner than its take can arrive. An
    assertion checks it.

    Latency: PORT_CROSSING + 1 cycles from `arrived` to a valid beat; `words_latency` cycles from the transfer of a beat
    to its payload. Throughput: one beat a cycle.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build, with several ports.

    Members
    -------
    arrived : array of ports arrays of 2 bits, in
        A beat of the base stream or the draw stream enters the FIFO of a port.
    parts : array of ports arrays of 2 streams of parts of beats, in
        These FIFOs.
    beats : array of 2 streams of beats, out
        The base stream and the draw stream. A payload comes `words_latency` cycles after the transfer of its beat. At
        most one beat of both is taken in a cycle.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "arrived": In(data.ArrayLayout(2, config.ports)),
                "parts": In(stream.Signature(config.port_width)).array(config.ports, 2),
                "beats": Out(stream.Signature(config.width)).array(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        words = []
        for port, parts in enumerate(self.parts):
            takes = []
            for i, (beats, part) in enumerate(zip(self.beats, parts, strict=True)):
                name = f"{port}_{i}"
                take = delay_valid(m, beats.ready, PORT_CROSSING, f"take_{name}")[-1]
                m.d.comb += part.ready.eq(take)
                expect(m, platform, ~take | part.valid, f"a beat of stream {i} is taken before it is at port {port}")
                takes.append(take)
            word = Mux(takes[DRAW], parts[DRAW].payload, parts[BASE].payload)
            words.append(delay(m, word, PORT_CROSSING, f"word_{port}"))
        for i, beats in enumerate(self.beats):
            credits = [
                self._credit(m, f"{port}_{i}", arrived[i], beats.ready) for port, arrived in enumerate(self.arrived)
            ]
            m.d.comb += beats.valid.eq(Cat(credit != 0 for credit in credits).all())
            m.d.comb += beats.payload.eq(Cat(words))
        return m

    def _credit(self, m, name, arrived, taken):
        """Return the beats of a port and a stream that are there and not taken."""
        counted = delay_valid(m, arrived, PORT_CROSSING, f"arrived_{name}")[-1]
        credit = Signal(range(self._config.fifo_beats + 1), name=f"credit_{name}")
        m.d.sync += credit.eq(credit + counted - taken)
        return credit
