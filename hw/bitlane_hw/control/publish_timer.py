"""The prediction of when the model of a batch is published."""

from __future__ import annotations

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import update_latency
from bitlane.contract.layout import MAX_DIGITS
from bitlane_hw.common.fixed_point import delay_valid, register
from bitlane_hw.common.payloads import settings_layout


class PublishTimer(wiring.Component):
    """Predict when the model of a batch is published, so that no flag has to cross the chip.

    Behind the sequencer all latencies are fixed: the first chunk of a batch is published `update_latency` cycles
    after the end of the batch, and one more for each further word of a chunk. All words reach the lanes
    `words_latency` cycles after they are taken. So the sequencer can take the first digits of the next batch as many
    cycles before its model is there, and a batch waits no longer than with one port.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    batch_taken : 1 bit, in
        The last beat of a batch is taken.
    published : 1 bit, out
        Digits that are taken from the next cycle on find the model of that batch.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__({"settings": In(settings_layout(config)), "batch_taken": In(1), "published": Out(1)})

    def elaborate(self, platform):
        m = Module()
        config, settings = self._config, self.settings
        latency = update_latency(config.rows_per_beat, config.table_lanes, config.random_rounding, config.shards)
        half = settings.half_digit if config.table_lanes else 0
        # Of the first chunk, 1 to MAX_DIGITS.
        words = register(m, settings.base_digits + settings.draws + half, "words")
        begun = delay_valid(m, self.batch_taken, latency - 2, "begun")[-1]
        published = Cat(0, *delay_valid(m, begun, MAX_DIGITS, "published"))
        m.d.comb += self.published.eq(published.bit_select(words, 1))
        return m
