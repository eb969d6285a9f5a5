"""What is written to memory: a chunk of a model, or the record of an epoch, beat by beat."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LOSS, MASTER
from bitlane.contract.layout import BURST_BEATS, CHUNK


class Storer(wiring.Component):
    """Cuts a chunk's 32 master weights, or cycles and losses, into beats.

    Members
    -------
    begin: In(1), the next beat is the first. trace: In(1), of the record; otherwise of the model.
    masters: In, 32 master weights. stamp: In(64), cycles. losses: In, LOSS of each output.
    beats: Out, stream of beats; always valid, the writer takes as many as it was asked for.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "begin": In(1),
                "trace": In(1),
                "masters": In(MASTER.bits * CHUNK),
                "stamp": In(64),
                "losses": In(LOSS.bits).array(config.outputs),
                "beats": Out(stream.Signature(config.width, always_valid=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width = self._config.width
        record = Signal(self._config.record_beats * width)
        count = Signal(range(BURST_BEATS))
        m.d.comb += [
            record.eq(Cat(self.stamp, *self.losses)),
            self.beats.payload.eq(
                Mux(self.trace, record.word_select(count, width), self.masters.word_select(count, width))
            ),
        ]
        with m.If(self.begin):
            m.d.sync += count.eq(0)
        with m.Elif(self.beats.ready):
            m.d.sync += count.eq(count + 1)
        return m
