"""The data path of the accelerator: from the read port to the weights, and from the weights to the write port."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.latencies import words_latency
from bitlane.contract.prng import SEED_BITS
from bitlane_hw.common.expectations import Asserting, expect
from bitlane_hw.common.fixed_point import delay_valid, register
from bitlane_hw.common.payloads import ObjectiveSettings, Scale, base_bits, settings_layout
from bitlane_hw.common.signatures import Bursts, RunControl
from bitlane_hw.control.publish_timer import PublishTimer
from bitlane_hw.control.schedule import PENALTY_STEP_BITS, SCALES, StepSchedule
from bitlane_hw.control.sequencer import Sequencer
from bitlane_hw.datapath.codebook import CodebookMemory
from bitlane_hw.datapath.model_core import ModelCore
from bitlane_hw.datapath.model_shard import shard_name
from bitlane_hw.datapath.rounding import RANDOM_SETTINGS
from bitlane_hw.datapath.update import THRESHOLD_BITS, lanes_latency
from bitlane_hw.memory.axi import AXI4Read, AXI4Write, port_name
from bitlane_hw.memory.burst_generator import BASE, DRAW, region_layout
from bitlane_hw.memory.loader import Loader
from bitlane_hw.memory.port_credits import PortCredits
from bitlane_hw.memory.reader import Reader
from bitlane_hw.memory.storer import Storer
from bitlane_hw.memory.writer import Writer


class EnginePort(wiring.Signature):
    """A memory port of the engine, and where its streams lie.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    regions : array of 2 region_layout, in
        The regions of the base stream and of the draw stream.
    model_in : address_bits, in
        Address of the initial models.
    read : AXI4Read, out
        Read channels.
    write : AXI4Write, out
        Write channels.
    """

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "regions": In(region_layout(config)).array(2),
                "model_in": In(config.address_bits),
                "read": Out(AXI4Read(config.address_bits, config.port_width)),
                "write": Out(AXI4Write(config.address_bits, config.port_width)),
            }
        )


class Engine(wiring.Component):
    """Connect readers, sequencer, a model core for each output, and writers: everything that a run resets first.

    Each memory port has a reader, a storer and a writer, which run apart from those of other ports. Only the sequencer
    makes beats wait: a beat is there once all ports have their part of it. Behind it all latencies are fixed.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    objective : ObjectiveSettings, in
        Loss, proximal operator and bounds of the run.
    draw_sets : 32 bits, in
        Number of draw sets.
    step, step_negative, penalty_step : Scale, in
        Initial scales: see `StepSchedule`.
    phase : 32 bits, in
        Initial phase of the shrink: see `StepSchedule`.
    decay : 17 bits, in
        Decay of the scales: see `StepSchedule`.
    model_cut, scaled_gradient_cut : 0 to 31, in
        See `ModelCore`. Only with random rounding. The cores get the second less the growth of the exponent of `step`.
    seed : 32 bits, in
        Seed of the run. Only with random rounding.
    run : RunControl, in
        Commands of the control, and the end of an epoch.
    reads, writes : Bursts, out
        The bursts of all ports in each direction.
    step_now, step_negative_now, penalty_step_now : Scale, out
        Current scales.
    phase_now : 32 bits, out
        Current phase.
    seed_now : 32 bits, out
        Seed after the batches so far. Only with random rounding.
    beats : 64 bits, out
        Read beats accepted on the first port.
    stall_memory : 64 bits, out
        Cycles in which the next beat had not arrived.
    stall_model : 64 bits, out
        Cycles in which a digit waited for another reason.
    saturations : 64 bits, out
        Clipped values.
    ports : array of ports EnginePort, out
        The memory ports, each with what lies behind it.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        ins = {
            "settings": settings_layout(config), "objective": ObjectiveSettings, "draw_sets": 32,
            "step": Scale, "step_negative": Scale, "penalty_step": Scale, "phase": 32, "decay": 17,
        }  # fmt: skip
        outs = {
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
                "run": In(RunControl(config)),
                "reads": Out(Bursts()),
                "writes": Out(Bursts()),
                "ports": Out(EnginePort(config)).array(config.ports),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        readers = [Reader(config) for _ in range(config.ports)]
        for port, reader in enumerate(readers):
            m.submodules[port_name(config, "reader", port)] = reader
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.row_buffer = row_buffer = fifo.SyncFIFOBuffered(width=config.width, depth=config.row_buffer_beats)
        m.submodules.schedule = schedule = StepSchedule()
        loaders = [Loader(config) for _ in range(config.shards)]
        for shard, loader in enumerate(loaders):
            m.submodules[shard_name(config, "loader", shard)] = loader
        storers = [Storer(config, port) for port in range(config.ports)]
        for port, storer in enumerate(storers):
            m.submodules[port_name(config, "storer", port)] = storer
        writers = [Writer(config) for _ in range(config.ports)]
        for port, writer in enumerate(writers):
            m.submodules[port_name(config, "writer", port)] = writer
        cores = [ModelCore(config, output) for output in range(config.outputs)]
        for output, core in enumerate(cores):
            m.submodules[f"core_{output}"] = core

        loaded = self._connect_codebooks(m, loaders, cores) if config.table_lanes else cores[-1].load_done
        self._connect_beats(m, readers, sequencer, loaders)
        self._connect_memory(m, readers, storers, writers)
        self._connect_samples(m, platform, sequencer, row_buffer, cores, loaded)
        room = ~row_buffer.w_stream.valid | row_buffer.w_stream.ready
        expect(m, platform, room, "a beat is taken while the row buffer is full")
        self._connect_models(m, loaders, storers, cores)
        self._connect_schedule(m, schedule, cores)
        self._count_events(m, readers[0], sequencer, cores)
        return m

    def _connect_beats(self, m, readers, sequencer, loaders):
        """Connect the readers to the sequencer, and the sequencer to the loaders."""
        beats = readers[0].beats if len(readers) == 1 else self._credited(m, readers)
        for i, taken in enumerate(sequencer.beats):
            connect(m, beats[i], taken)
        beat = sequencer.model.payload
        for shard, loader in enumerate(loaders):
            fields = {name: beat[name] for name, _ in loader.beats.payload.shape()}
            fields["words"] = beat.words.word_select(shard, self._config.shard_width)
            m.d.comb += [
                loader.beats.payload.as_value().eq(Cat(fields.values())),
                loader.beats.valid.eq(sequencer.model.valid),
            ]

    def _credited(self, m, readers):
        """Return the beats of several readers: a beat is valid once all ports have their part of it."""
        m.submodules.port_credits = port_credits = PortCredits(self._config)
        for port, reader in enumerate(readers):
            m.d.comb += port_credits.arrived[port].eq(reader.arrived)
            for i in (BASE, DRAW):
                connect(m, reader.beats[i], port_credits.parts[port][i])
        return port_credits.beats

    def _connect_memory(self, m, readers, storers, writers):
        """Connect readers, storers and writers to the ports and to the control."""
        for storer, writer in zip(storers, writers, strict=True):
            connect(m, storer.beats, writer.beats)
        self._connect_requests(m, writers)
        for memory, reader, writer in zip(self.ports, readers, writers, strict=True):
            connect(m, reader.axi, flipped(memory.read))
            connect(m, writer.axi, flipped(memory.write))
            m.d.comb += [
                reader.enable.eq(self.run.enable),
                reader.load.eq(self.run.load),
                reader.settings.eq(self.settings),
                reader.model.eq(memory.model_in),
                reader.draw_sets.eq(self.draw_sets),
                *(inner.eq(outer) for inner, outer in zip(reader.regions, memory.regions, strict=True)),
            ]
        m.d.comb += [
            self.reads.response.eq(reduce(or_, (reader.response for reader in readers))),
            self.reads.idle.eq(reduce(and_, (reader.idle for reader in readers))),
            self.writes.response.eq(reduce(or_, (writer.response for writer in writers))),
            self.writes.idle.eq(reduce(and_, (writer.idle for writer in writers))),
        ]

    def _connect_requests(self, m, writers):
        """Connect the writers to the control.

        All of them take the request for a chunk of a model at once, and the first one alone that for a record.
        """
        given, address_bits = self.run.requests, self._config.address_bits
        for port, writer in enumerate(writers):
            address = given.payload.addresses.word_select(port, address_bits)
            m.d.comb += writer.requests.payload.as_value().eq(Cat(address, given.payload.beats))
        m.d.comb += given.ready.eq(reduce(and_, (writer.requests.ready for writer in writers)))
        for port, writer in enumerate(writers):
            m.d.comb += writer.requests.valid.eq(given.valid & self.run.storing if port else given.valid)

    def _predict_published(self, m, platform, sequencer, core):
        """Return the predicted `published` of the core; the assertion compares both."""
        m.submodules.publish_timer = timer = PublishTimer(self._config)
        m.d.comb += [timer.settings.eq(self.settings), timer.batch_taken.eq(sequencer.batch_taken)]
        if isinstance(platform, Asserting):
            predicted = delay_valid(m, timer.published, words_latency(self._config.ports), "predicted")[-1]
            expect(m, platform, predicted == core.published, "a batch is not published when the timer predicts it")
        return timer.published

    def _connect_samples(self, m, platform, sequencer, row_buffer, cores, loaded):
        """Connect the sequencer and the row buffer to the cores.

        All cores have the same timing, so that the first one controls the sequencer and the row buffer.
        """
        first = cores[0]
        m.d.comb += [
            sequencer.enable.eq(self.run.enable),
            sequencer.settings.eq(self.settings),
            sequencer.epoch_go.eq(self.run.epoch_go),
            sequencer.published.eq(
                first.published if self._config.ports == 1 else self._predict_published(m, platform, sequencer, first)
            ),
            sequencer.loaded.eq(loaded),
            row_buffer.w_stream.valid.eq(delay_valid(m, sequencer.digits.valid, 1, "retained_valid")[0]),
            row_buffer.w_stream.payload.eq(register(m, sequencer.digits.payload.words, "retained")),
            row_buffer.r_stream.ready.eq(first.beats.ready),
            self.run.epoch_done.eq(first.epoch_done),
        ]
        if self._config.random_rounding:
            m.d.comb += self.seed_now.eq(first.seed_now)
            halvings = Mux(self.step.mantissa.any(), self.step_now.exponent - self.step.exponent, 0)
            cut = register(m, Mux(halvings < self.scaled_gradient_cut, self.scaled_gradient_cut - halvings, 0), "cut")
            for core in cores:
                m.d.comb += core.begin.eq(self.run.load)
                m.d.comb += [
                    core.model_cut.eq(self.model_cut),
                    core.seed.eq(self.seed),
                    core.scaled_gradient_cut.eq(cut),
                ]
        for core in cores:
            m.d.comb += [
                core.settings.eq(self.settings),
                core.objective.eq(self.objective),
                core.digits.valid.eq(sequencer.digits.valid),
                core.digits.payload.eq(sequencer.digits.payload),
                core.beats.valid.eq(row_buffer.r_stream.valid),
                core.beats.payload.eq(row_buffer.r_stream.payload),
            ]

    def _connect_codebooks(self, m, loaders, cores):
        """Create a codebook memory for each word of a beat, which all cores read together.

        Returns
        -------
        Signal
            1 when the last level and the models are loaded, as many cycles after the load of the level as for a model.
        """
        config = self._config
        first = cores[0]
        for word in range(config.words_per_beat):
            loader = loaders[word // config.rows_per_beat]
            m.submodules[f"codebook_{word}"] = codebook = CodebookMemory(config)
            m.d.comb += [
                codebook.settings.eq(self.settings),
                codebook.load.eq(loader.load_level),
                codebook.chunk.eq(loader.chunk),
                codebook.level.eq(loader.level),
                codebook.loaded.eq(loader.masters),
                codebook.dot.addresses.eq(first.dot_codebooks[word].addresses),
                codebook.gradient.addresses.eq(first.gradient_codebooks[word].addresses),
                *(core.dot_codebooks[word].levels.eq(codebook.dot.levels) for core in cores),
                *(core.gradient_codebooks[word].levels.eq(codebook.gradient.levels) for core in cores),
            ]
        loader = loaders[0]
        last_chunk = loader.chunk == self.settings.chunks - 1
        last = loader.load_level & last_chunk & (loader.level == 1 << base_bits(self.settings))
        return delay_valid(m, last, lanes_latency(config), "levels_loaded")[-1]

    def _connect_models(self, m, loaders, storers, cores):
        """Connect the loaders and the storers to the cores. All loaders have the same timing."""
        for output, core in enumerate(cores):
            m.d.comb += [
                core.load.eq(loaders[0].load[output]),
                core.load_chunk.eq(loaders[0].chunk),
                core.loaded.eq(Cat(loader.masters for loader in loaders)),
                core.storing.eq(self.run.storing),
                core.store_chunk.eq(self.run.store_chunk),
                storers[0].losses[output].eq(core.loss),
            ]
        first = storers[0]
        for storer in storers:
            m.d.comb += [
                storer.begin.eq(self.run.store_begin),
                *([storer.trace.eq(self.run.store_trace)] if storer is first else []),
                storer.masters.eq(Array(core.stored for core in cores)[self.run.store_output]),
            ]
        m.d.comb += first.stamp.eq(self.run.stamp)

    def _connect_schedule(self, m, schedule, cores):
        """Connect the schedule to its registers and to the cores."""
        m.d.comb += [
            schedule.load.eq(self.run.load),
            schedule.phase_initial.eq(self.phase),
            schedule.decay.eq(self.decay),
            schedule.batch_end.eq(cores[0].batch_end),
            schedule.epoch_end.eq(self.run.epoch_go),
            self.phase_now.eq(schedule.phase),
        ]
        for initial, now, name in zip(schedule.initial, schedule.scales, SCALES, strict=True):
            m.d.comb += [initial.eq(getattr(self, name)), getattr(self, f"{name}_now").eq(now)]
        for core in cores:
            m.d.comb += [
                core.step.eq(schedule.scales[SCALES.index("step")]),
                core.step_negative.eq(schedule.scales[SCALES.index("step_negative")]),
                core.threshold.eq(schedule.penalty_step32[PENALTY_STEP_BITS - THRESHOLD_BITS :]),
                core.shrink.eq(schedule.shrink),
                core.clear_loss.eq(self.run.epoch_go),
            ]

    def _count_events(self, m, reader, sequencer, cores):
        """Count beats, stalls and saturations, one cycle later."""
        for name, increment in (
            ("beats", reader.accepted),
            ("stall_memory", sequencer.stall_memory),
            ("stall_model", sequencer.stall_model),
            ("saturations", sum(core.clipped for core in cores)),
        ):
            pending = Signal.like(increment, name=f"increment_{name}")
            counter = getattr(self, name)
            m.d.sync += [pending.eq(increment), counter.eq(counter + pending)]
