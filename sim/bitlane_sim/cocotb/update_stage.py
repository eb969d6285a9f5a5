"""The update stage as a separate design, for `bench_update`."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import BOUND, MASTER, WEIGHT
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Prox
from bitlane_hw.common.payloads import GroupEnd, ScaledGradients, settings_layout
from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.update import THRESHOLD_BITS, UpdateLanes
from bitlane_hw.datapath.weights import Weights


class UpdateStage(wiring.Component):
    """`GradientPass`, `UpdateLanes` and `Weights`, connected as in the model core, with a port that reads the model.

    Members
    -------
    settings, low, high, unpenalized_intercept, threshold, load, load_chunk, loaded : In
        As in `UpdateLanes`.
    start, scaled_gradients, end, prox, beats : In
        As in `GradientPass`.
    look : In(1)
        Read `chunk` of the masters as well.
    chunk, bank : In
        The chunk and the bank to read.
    master, published : Out
        `chunk` of the masters, and of the copy in `bank`, one cycle later.
    first_published, epoch_done, load_done, clipped : Out
        As in `UpdateLanes`.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "low": In(signed(BOUND.bits)),
                "high": In(signed(BOUND.bits)),
                "unpenalized_intercept": In(1),
                "threshold": In(THRESHOLD_BITS),
                "load": In(1),
                "load_chunk": In(range(config.max_chunks)),
                "loaded": In(MASTER.bits * CHUNK),
                "start": In(1),
                "scaled_gradients": In(ScaledGradients).array(config.rows_per_beat),
                "end": In(GroupEnd),
                "prox": In(Prox),
                "beats": In(stream.Signature(config.width)),
                "look": In(1),
                "chunk": In(range(config.max_chunks)),
                "bank": In(1),
                "master": Out(MASTER.bits * CHUNK),
                "published": Out(WEIGHT.bits * CHUNK),
                "first_published": Out(1),
                "epoch_done": Out(1),
                "load_done": Out(1),
                "clipped": Out(range(CHUNK + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.gradient = gradient = GradientPass(self._config)
        m.submodules.lanes = lanes = UpdateLanes(self._config)
        m.submodules.weights = weights = Weights(self._config)
        connect(m, flipped(self.beats), gradient.beats)
        connect(m, gradient.passes, lanes.passes)
        for name in ("settings", "start", "end", "prox"):
            m.d.comb += getattr(gradient, name).eq(getattr(self, name))
        for name in ("settings", "low", "high", "unpenalized_intercept", "threshold", "load", "load_chunk", "loaded"):
            m.d.comb += getattr(lanes, name).eq(getattr(self, name))
        for name in ("epoch_done", "load_done", "clipped"):
            m.d.comb += getattr(self, name).eq(getattr(lanes, name))
        m.d.comb += [
            *(inner.eq(outer) for inner, outer in zip(gradient.scaled_gradients, self.scaled_gradients, strict=True)),
            lanes.master.eq(weights.master),
            weights.write.eq(lanes.write),
            weights.publish.eq(lanes.publish),
            weights.write_bank.eq(lanes.bank),
            weights.write_address.eq(lanes.write_address),
            weights.masters.eq(lanes.updated),
            weights.master_address.eq(Mux(self.look, self.chunk, lanes.read_address)),
            weights.published_address.eq(self.chunk),
            weights.read_bank.eq(self.bank),
            self.master.eq(weights.master),
            self.published.eq(weights.published),
            self.first_published.eq(lanes.published),
        ]
        return m
