"""The data's way through the accelerator, from the read port to the weights and back to the write port."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.prng import SEED_BITS
from bitlane_hw.common.fixed_point import delay_valid, register
from bitlane_hw.common.payloads import Objective, Scale, base_bits, request_layout, settings_layout
from bitlane_hw.control.schedule import PENALTY_STEP_BITS, SCALES, Schedule
from bitlane_hw.control.sequencer import Sequencer
from bitlane_hw.datapath.levels import LevelTables
from bitlane_hw.datapath.model_core import ModelCore
from bitlane_hw.datapath.rounding import RANDOM_SETTINGS
from bitlane_hw.datapath.update import THRESHOLD_BITS, lanes_latency
from bitlane_hw.memory.axi import AXI4Read, AXI4Write
from bitlane_hw.memory.burst_generator import region_layout
from bitlane_hw.memory.loader import Loader
from bitlane_hw.memory.reader import Reader
from bitlane_hw.memory.storer import Storer
from bitlane_hw.memory.writer import Writer


class Engine(wiring.Component):
    """Reader, sequencer, a head for each output, writer: all that a run resets first.

    Behind the sequencer nothing waits.

    Members
    -------
    As `Control`'s of the same names, from the other side; the run's registers; and the counters.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        ins = {
            "settings": settings_layout(config), "objective": Objective, "draw_sets": 32,
            "model_in": config.address_bits,
            "step": Scale, "step_negative": Scale, "penalty_step": Scale, "phase": 32, "decay": 17,
            "enable": 1, "load": 1, "epoch_go": 1, "storing": 1, "store_chunk": range(config.max_chunks),
            "store_output": range(config.outputs), "store_begin": 1, "store_trace": 1, "stamp": 64,
        }  # fmt: skip
        outs = {
            "epoch_done": 1, "read_response": 2, "write_response": 2, "read_idle": 1, "write_idle": 1,
            "step_now": Scale, "step_negative_now": Scale, "penalty_step_now": Scale, "phase_now": 32,
            "beats": 64, "stall_memory": 64, "stall_model": 64, "saturations": 64,
        }  # fmt: skip
        if config.random_rounding:
            ins |= RANDOM_SETTINGS
            outs |= {"seed_now": SEED_BITS}
        super().__init__(
            {
                **{name: In(shape) for name, shape in ins.items()},
                **{name: Out(shape) for name, shape in outs.items()},
                "regions": In(region_layout(config)).array(2),
                "requests": In(stream.Signature(request_layout(config))),
                "read": Out(AXI4Read(config.address_bits, config.width)),
                "write": Out(AXI4Write(config.address_bits, config.width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.reader = reader = Reader(config)
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.row_buffer = row_buffer = fifo.SyncFIFOBuffered(width=config.width, depth=config.row_buffer_beats)
        m.submodules.schedule = schedule = Schedule()
        m.submodules.loader = loader = Loader(config)
        m.submodules.storer = storer = Storer(config)
        m.submodules.writer = writer = Writer(config)
        heads = [ModelCore(config, output) for output in range(config.outputs)]
        for output, head in enumerate(heads):
            m.submodules[f"head_{output}"] = head

        loaded = self._tables(m, loader, heads) if config.table_lanes else heads[-1].load_done
        self._memory_side(m, reader, sequencer, loader, storer, writer)
        self._samples(m, sequencer, row_buffer, heads, loaded)
        self._models(m, loader, storer, heads)
        self._schedule(m, schedule, heads)
        self._counters(m, reader, sequencer, heads)
        return m

    def _memory_side(self, m, reader, sequencer, loader, storer, writer):
        for beats, taken in zip(reader.beats, sequencer.beats, strict=True):
            connect(m, beats, taken)
        connect(m, sequencer.model, loader.beats)
        connect(m, storer.beats, writer.beats)
        connect(m, flipped(self.requests), writer.requests)
        connect(m, reader.axi, flipped(self.read))
        connect(m, writer.axi, flipped(self.write))
        m.d.comb += [
            reader.enable.eq(self.enable),
            reader.load.eq(self.load),
            reader.settings.eq(self.settings),
            reader.model.eq(self.model_in),
            reader.draw_sets.eq(self.draw_sets),
            *(inner.eq(outer) for inner, outer in zip(reader.regions, self.regions, strict=True)),
            self.read_response.eq(reader.response),
            self.read_idle.eq(reader.idle),
            self.write_response.eq(writer.response),
            self.write_idle.eq(writer.idle),
        ]

    def _samples(self, m, sequencer, row_buffer, heads, loaded):
        """All heads go in step: what one of them says of the time is true for all."""
        first = heads[0]
        m.d.comb += [
            sequencer.enable.eq(self.enable),
            sequencer.settings.eq(self.settings),
            sequencer.epoch_go.eq(self.epoch_go),
            sequencer.published.eq(first.published),
            sequencer.loaded.eq(loaded),
            row_buffer.w_stream.valid.eq(delay_valid(m, sequencer.digits.valid, 1, "kept_valid")[0]),
            row_buffer.w_stream.payload.eq(register(m, sequencer.digits.payload.words, "kept")),
            row_buffer.r_stream.ready.eq(first.beats.ready),
            self.epoch_done.eq(first.epoch_done),
        ]
        if self._config.random_rounding:
            m.d.comb += self.seed_now.eq(first.seed_now)
            for head in heads:
                m.d.comb += head.begin.eq(self.load)
                m.d.comb += [getattr(head, name).eq(getattr(self, name)) for name in RANDOM_SETTINGS]
        for head in heads:
            m.d.comb += [
                head.settings.eq(self.settings),
                head.objective.eq(self.objective),
                head.digits.valid.eq(sequencer.digits.valid),
                head.digits.payload.eq(sequencer.digits.payload),
                head.beats.valid.eq(row_buffer.r_stream.valid),
                head.beats.payload.eq(row_buffer.r_stream.payload),
            ]

    def _tables(self, m, loader, heads):
        """A table for each column, which all heads read together; returns when the last level is there, and the models.

        That is as many cycles after its load as it is for a model.
        """
        config = self._config
        first = heads[0]
        for column in range(config.rows_per_beat):
            m.submodules[f"tables_{column}"] = tables = LevelTables(config)
            m.d.comb += [
                tables.settings.eq(self.settings),
                tables.load.eq(loader.load_level),
                tables.chunk.eq(loader.chunk),
                tables.level.eq(loader.level),
                tables.loaded.eq(loader.masters),
                tables.dot.addresses.eq(first.dot_tables[column].addresses),
                tables.gradient.addresses.eq(first.gradient_tables[column].addresses),
                *(head.dot_tables[column].levels.eq(tables.dot.levels) for head in heads),
                *(head.gradient_tables[column].levels.eq(tables.gradient.levels) for head in heads),
            ]
        last_chunk = loader.chunk == self.settings.chunks - 1
        last = loader.load_level & last_chunk & (loader.level == 1 << base_bits(self.settings))
        return delay_valid(m, last, lanes_latency(config), "levels_loaded")[-1]

    def _models(self, m, loader, storer, heads):
        for output, head in enumerate(heads):
            m.d.comb += [
                head.load.eq(loader.load[output]),
                head.load_chunk.eq(loader.chunk),
                head.loaded.eq(loader.masters),
                head.storing.eq(self.storing),
                head.store_chunk.eq(self.store_chunk),
                storer.losses[output].eq(head.loss),
            ]
        m.d.comb += [
            storer.begin.eq(self.store_begin),
            storer.trace.eq(self.store_trace),
            storer.masters.eq(Array(head.stored for head in heads)[self.store_output]),
            storer.stamp.eq(self.stamp),
        ]

    def _schedule(self, m, schedule, heads):
        m.d.comb += [
            schedule.load.eq(self.load),
            schedule.phase_initial.eq(self.phase),
            schedule.decay.eq(self.decay),
            schedule.batch_end.eq(heads[0].batch_end),
            schedule.epoch_end.eq(self.epoch_go),
            self.phase_now.eq(schedule.phase),
        ]
        for initial, now, name in zip(schedule.initial, schedule.scales, SCALES, strict=True):
            m.d.comb += [initial.eq(getattr(self, name)), getattr(self, f"{name}_now").eq(now)]
        for head in heads:
            m.d.comb += [
                head.step.eq(schedule.scales[SCALES.index("step")]),
                head.step_negative.eq(schedule.scales[SCALES.index("step_negative")]),
                head.threshold.eq(schedule.penalty_step32[PENALTY_STEP_BITS - THRESHOLD_BITS :]),
                head.shrink.eq(schedule.shrink),
                head.clear_loss.eq(self.epoch_go),
            ]

    def _counters(self, m, reader, sequencer, heads):
        for name, increment in (
            ("beats", reader.accepted),
            ("stall_memory", sequencer.stall_memory),
            ("stall_model", sequencer.stall_model),
            ("saturations", sum(head.clipped for head in heads)),
        ):
            more = Signal.like(increment, name=f"more_{name}")
            counter = getattr(self, name)
            m.d.sync += [more.eq(increment), counter.eq(counter + more)]
