"""The data's way through the accelerator, from the read port to the weights and back to the write port."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .axi import AXI4Read, AXI4Write
from .config import AcceleratorConfig
from .contract import CHUNK, LOSS, TRACE_WORDS, WORD_BITS
from .dot import DotLanes
from .fixed import popcount
from .gradient import GradientLanes, GradientPass
from .model_port import ModelPort
from .payloads import Scale, request_layout, settings_layout
from .reader import Reader
from .requester import region_layout
from .scalar import Loss, Residual, Step
from .schedule import Schedule
from .sequencer import Sequencer
from .weights import Weights
from .writer import Writer


class Engine(wiring.Component):
    """Reader, sequencer, lanes, scalar stage, weights, writer: all that a run resets first.

    Behind the sequencer nothing waits: `update_latency` cycles after the last word of a batch (of a row of one digit)
    the sequencer may take the first word of the next.

    Members
    -------
    As `Control`'s of the same names, from the other side; the run's registers; and the counters.
    """

    update_latency = (
        DotLanes.latency + Residual.latency + Step.latency + GradientPass.latency + GradientLanes.latency + 1
    )

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        ins = {
            "settings": settings_layout(config), "lane_mask": CHUNK, "shrink_shift": 1, "sets": 32,
            "model_in": config.address_bits, "step": Scale, "rate": Scale, "phase": 32, "decay": 17,
            "enable": 1, "load": 1, "epoch_go": 1,
            "store_chunk": range(config.max_chunks), "fetch": 1, "capture": 1, "capture_trace": 1, "stamp": 64,
        }  # fmt: skip
        outs = {
            "epoch_done": 1, "read_response": 2, "write_response": 2, "read_idle": 1, "write_idle": 1,
            "step_now": Scale, "rate_now": Scale, "phase_now": 32,
            "beats": 64, "stall_memory": 64, "stall_model": 64, "saturations": 64,
        }  # fmt: skip
        super().__init__(
            {
                **{name: In(shape) for name, shape in ins.items()},
                **{name: Out(shape) for name, shape in outs.items()},
                "regions": In(region_layout(config)).array(2),
                "requests": In(stream.Signature(request_layout(config))),
                "read": Out(AXI4Read(config.address_bits)),
                "write": Out(AXI4Write(config.address_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.reader = reader = Reader(config)
        m.submodules.sequencer = sequencer = Sequencer(config)
        m.submodules.row_buffer = row_buffer = fifo.SyncFIFOBuffered(width=WORD_BITS, depth=config.row_buffer_words)
        m.submodules.dot_lanes = dot_lanes = DotLanes(config)
        m.submodules.residual = residual = Residual(config)
        m.submodules.loss = loss = Loss()
        m.submodules.step = step = Step()
        m.submodules.schedule = schedule = Schedule()
        m.submodules.gradient_pass = gradient_pass = GradientPass(config)
        m.submodules.gradient_lanes = lanes = GradientLanes(config)
        m.submodules.weights = weights = Weights(config)
        m.submodules.model_port = model_port = ModelPort(config)
        m.submodules.writer = writer = Writer(config)

        self._memory_side(m, reader, sequencer, model_port, writer)
        self._samples(m, sequencer, row_buffer, dot_lanes, residual, loss, step, gradient_pass, lanes)
        self._schedule(m, schedule, step, gradient_pass, loss)
        self._weights(m, weights, dot_lanes, lanes, model_port, loss)
        self._counters(m, reader, sequencer, residual, step, lanes)
        return m

    def _memory_side(self, m, reader, sequencer, model_port, writer):
        for words, taken in zip(reader.words, sequencer.words, strict=True):
            connect(m, words, taken)
        connect(m, sequencer.model, model_port.words)
        connect(m, model_port.out, writer.words)
        connect(m, flipped(self.requests), writer.requests)
        connect(m, reader.axi, flipped(self.read))
        connect(m, writer.axi, flipped(self.write))
        m.d.comb += [
            reader.enable.eq(self.enable),
            reader.load.eq(self.load),
            reader.settings.eq(self.settings),
            reader.model.eq(self.model_in),
            reader.sets.eq(self.sets),
            *(inner.eq(outer) for inner, outer in zip(reader.regions, self.regions, strict=True)),
            self.read_response.eq(reader.response),
            self.read_idle.eq(reader.idle),
            self.write_response.eq(writer.response),
            self.write_idle.eq(writer.idle),
        ]

    def _samples(self, m, sequencer, row_buffer, dot_lanes, residual, loss, step, gradient_pass, lanes):
        connect(m, sequencer.digits, dot_lanes.digits)
        connect(m, dot_lanes.dots, residual.dots)
        connect(m, step.coefficients, gradient_pass.coefficients)
        connect(m, row_buffer.r_stream, gradient_pass.words)
        connect(m, gradient_pass.passes, lanes.passes)
        m.d.comb += [
            sequencer.enable.eq(self.enable),
            sequencer.settings.eq(self.settings),
            sequencer.epoch_go.eq(self.epoch_go),
            sequencer.published.eq(lanes.published),
            row_buffer.w_stream.valid.eq(sequencer.digits.valid),
            row_buffer.w_stream.payload.eq(sequencer.digits.payload.word),
            residual.base_digits.eq(self.settings.base_digits),
            gradient_pass.settings.eq(self.settings),
            lanes.lane_mask.eq(self.lane_mask),
            lanes.shrink_shift.eq(self.shrink_shift),
            self.epoch_done.eq(lanes.epoch_done),
        ]
        for user in (loss, step):
            m.d.comb += [
                user.residuals.valid.eq(residual.residuals.valid),
                user.residuals.payload.eq(residual.residuals.payload),
            ]

    def _schedule(self, m, schedule, step, gradient_pass, loss):
        coefficients = step.coefficients
        m.d.comb += [
            schedule.load.eq(self.load),
            schedule.step_initial.eq(self.step),
            schedule.rate_initial.eq(self.rate),
            schedule.phase_initial.eq(self.phase),
            schedule.decay.eq(self.decay),
            schedule.batch_end.eq(coefficients.valid & coefficients.payload.batch_last),
            schedule.epoch_end.eq(self.epoch_go),
            gradient_pass.shrink.eq(schedule.shrink),
            step.step.eq(schedule.step),
            loss.clear.eq(self.epoch_go),
            self.step_now.eq(schedule.step),
            self.rate_now.eq(schedule.rate),
            self.phase_now.eq(schedule.phase),
        ]

    def _weights(self, m, weights, dot_lanes, lanes, model_port, loss):
        m.d.comb += [
            weights.write.eq(lanes.write | model_port.write),
            weights.publish.eq(lanes.publish | model_port.write),
            weights.write_address.eq(Mux(model_port.write, model_port.write_address, lanes.write_address)),
            weights.masters.eq(Mux(model_port.write, model_port.chunk, lanes.updated)),
            weights.master_address.eq(Mux(self.fetch, self.store_chunk, lanes.read_address)),
            lanes.master.eq(weights.master),
            weights.published_address.eq(dot_lanes.address),
            dot_lanes.weights.eq(weights.published),
            model_port.capture.eq(self.capture),
            model_port.master.eq(weights.master),
            model_port.capture_trace.eq(self.capture_trace),
            model_port.record.eq(Cat(loss.loss, self.stamp)),
        ]

    def _counters(self, m, reader, sequencer, residual, step, lanes):
        clipped = Signal(range(CHUNK + 8))
        m.d.sync += clipped.eq(popcount(Cat(residual.clipped, step.clipped)) + lanes.clipped)
        for counter, increment in (
            (self.beats, reader.beat),
            (self.stall_memory, sequencer.stall_memory),
            (self.stall_model, sequencer.stall_model),
            (self.saturations, clipped),
        ):
            m.d.sync += counter.eq(counter + increment)


assert LOSS.bits + 64 == TRACE_WORDS * WORD_BITS
