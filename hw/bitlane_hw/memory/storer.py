"""The beats that a port writes to memory: chunks of models, and the records of epochs."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LOSS, MASTER
from bitlane.contract.layout import BURST_BEATS, CHUNK


class Storer(wiring.Component):
    """Cut a chunk of 32 master weights of each shard, or the record of an epoch, into the beats of a port.

    A record consists of the cycle counter and the loss of each output; the first port has it. The first beat is valid
    one cycle after `begin`. Throughput: one beat a cycle. Backpressure: a beat stays until it is taken.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.
    port : int, default=0
        Index of the port, which has the part of this index of each beat of a model.

    Members
    -------
    begin : 1 bit, in
        The next beat is the first one.
    trace : 1 bit, in
        1: beats of the record. 0: beats of the model. Only on the first port, like `stamp` and `losses`.
    masters : 32 values of format MASTER for each shard, in
        The chunk to store.
    stamp : 64 bits, in
        Clock cycles at the end of the epoch.
    losses : array of outputs values of format LOSS, in
        Loss of each output.
    beats : stream of beats, out, always valid
        The writer takes as many as its request says.
    """

    def __init__(self, config: AcceleratorConfig, port: int = 0):
        self._config = config
        self._port = port
        record = {"trace": In(1), "stamp": In(64), "losses": In(LOSS.bits).array(config.outputs)}
        super().__init__(
            {
                "begin": In(1),
                "masters": In(MASTER.bits * config.chunk_features),
                **({} if port else record),
                "beats": Out(stream.Signature(config.port_width, always_valid=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        width, shard_width = self._config.port_width, self._config.shard_width
        count = Signal(range(BURST_BEATS))
        shards = (self.masters.word_select(shard, MASTER.bits * CHUNK) for shard in range(self._config.shards))
        model = Cat(*(masters.word_select(count, shard_width) for masters in shards)).word_select(self._port, width)
        if self._port:
            m.d.comb += self.beats.payload.eq(model)
        else:
            record = Signal(self._config.record_beats * width)
            m.d.comb += [
                record.eq(Cat(self.stamp, *self.losses)),
                self.beats.payload.eq(Mux(self.trace, record.word_select(count, width), model)),
            ]
        with m.If(self.begin):
            m.d.sync += count.eq(0)
        with m.Elif(self.beats.ready):
            m.d.sync += count.eq(count + 1)
        return m
