"""From start to done: the order of a run's phases, and how it ends when something goes wrong."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import CHUNK_MODEL_BYTES
from bitlane.contract.modes import ErrorCode
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import request_layout, settings_layout
from bitlane_hw.memory.axi import OKAY, SLVERR


class Control(wiring.Component):
    """Checks the registers, lets the engine run, stores its results, and reports.

    States: IDLE, CHECK, RUN (the models are read, an epoch is trained), STORE, STORED (a chunk of a model goes out,
    chunk by chunk), RECORD, RECORDED (the trace), NEXT, DRAIN.
    An error or an abort ends RUN at once and a transfer after its burst; DRAIN waits until nothing is in flight,
    and an abort then is too late.

    Members
    -------
    start, abort, acknowledge: In(1), pulses.
    refused: In(1), the registers make no valid run; looked at from two cycles after `start` on.
    settings: In, the run. snapshots: In(1).
    model_out, trace: In, addresses.
    sizes_start, sizes_done: Out/In, `RegionSizes`.
    clear: Out(1), resets the engine before a run.
    load: Out(1), until the sizes are there: the reader takes its regions, the schedule its values.
    enable: Out(1), the engine may read and take beats.
    epoch_done, epoch_go: In/Out, the barrier at an epoch's end.
    storing, store_chunk, store_output: Out, the chunk that is stored, until the next one's request.
    store_begin, store_trace: Out(1), with a request: its beats begin, and are those of the record.
    requests: Out, stream of the writer's requests.
    read_response, write_response: In(2). read_idle, write_idle: In(1).
    busy, done, error, epoch, cycles, stamp: Out, for the registers and the trace.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        address = config.address_bits
        ins = {
            "start": 1, "abort": 1, "acknowledge": 1, "refused": 1, "snapshots": 1, "sizes_done": 1,
            "settings": settings_layout(config), "model_out": address, "trace": address,
            "epoch_done": 1, "read_response": 2, "write_response": 2, "read_idle": 1, "write_idle": 1,
        }  # fmt: skip
        outs = {
            "sizes_start": 1, "clear": 1, "load": 1, "enable": 1, "epoch_go": 1,
            "storing": 1, "store_chunk": range(config.max_chunks), "store_output": range(config.outputs),
            "store_begin": 1, "store_trace": 1,
            "busy": 1, "done": 1, "error": ErrorCode, "epoch": 16, "cycles": 64, "stamp": 64,
        }  # fmt: skip
        super().__init__(
            {
                **{name: In(shape) for name, shape in ins.items()},
                **{name: Out(shape) for name, shape in outs.items()},
                "requests": Out(stream.Signature(request_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        stopping = Signal()  # there is an error
        draining = Signal()
        loaded = Signal()
        last_epoch = Signal()
        m.d.comb += [
            self.enable.eq(self.busy & loaded & ~stopping),
            self.store_begin.eq(self.requests.valid & self.requests.ready),
        ]
        m.d.sync += last_epoch.eq(self.epoch == self.settings.epochs - 1)  # an epoch is longer than a cycle
        last_chunk = register(m, (self.settings.chunks - 1)[: len(self.store_chunk)], "last_chunk")
        self._watch(m, stopping, draining)
        model_address = Signal.like(self.model_out)
        trace_address = Signal.like(self.trace)
        with m.If(self.load):
            m.d.sync += [model_address.eq(self.model_out), trace_address.eq(self.trace)]
        with m.FSM():
            self._begin(m, stopping, loaded)
            self._train(m, stopping, last_epoch)
            self._store(m, stopping, last_chunk, model_address, trace_address)
            with m.State("NEXT"):
                m.d.comb += self.epoch_go.eq(1)
                m.d.sync += self.epoch.eq(self.epoch + 1)
                m.next = "RUN"
                with m.If(last_epoch):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += draining.eq(1)
                m.d.sync += [loaded.eq(0), self.store_chunk.eq(0), self.store_output.eq(0)]
                with m.If(self.read_idle & self.write_idle):
                    m.d.sync += [self.busy.eq(0), self.done.eq(1)]
                    m.next = "IDLE"
        return m

    def _watch(self, m, stopping, draining):
        """Count cycles, keep the first error; of several at once a refusal, a read's, a write's, the abort."""

        def fail(condition, code):
            with m.If(self.busy & ~stopping & condition):
                m.d.sync += [self.error.eq(code), stopping.eq(1)]

        with m.If(self.busy):
            m.d.sync += self.cycles.eq(self.cycles + 1)
        with m.If(self.acknowledge & ~self.busy):
            m.d.sync += [self.done.eq(0), self.error.eq(ErrorCode.NONE), stopping.eq(0)]
        fail(self.abort & ~draining, ErrorCode.ABORTED)
        for response, slave, decode in (
            (self.write_response, ErrorCode.WRITE_SLAVE, ErrorCode.WRITE_DECODE),
            (self.read_response, ErrorCode.READ_SLAVE, ErrorCode.READ_DECODE),
        ):
            fail(response != OKAY, Mux(response == SLVERR, slave, decode))
        fail(register(m, self.busy, "was_busy") & self.refused, ErrorCode.CONFIGURATION)

    def _begin(self, m, stopping, loaded):
        with m.State("IDLE"):
            with m.If(self.start):
                m.d.comb += [self.clear.eq(1), self.sizes_start.eq(1)]
                m.d.sync += [
                    self.busy.eq(1),
                    self.done.eq(0),
                    self.error.eq(ErrorCode.NONE),
                    stopping.eq(0),
                    self.epoch.eq(0),
                    self.cycles.eq(0),
                ]
                m.next = "CHECK"
        with m.State("CHECK"):
            with m.If(stopping):
                m.next = "DRAIN"
            with m.Else():
                m.d.comb += self.load.eq(1)
                with m.If(self.sizes_done):
                    m.d.sync += loaded.eq(1)
                    m.next = "RUN"

    def _train(self, m, stopping, last_epoch):
        with m.State("RUN"):
            with m.If(stopping):
                m.next = "DRAIN"
            with m.Elif(self.epoch_done):
                m.d.sync += self.stamp.eq(self.cycles)
                m.next = "RECORD"
                with m.If(self.snapshots | last_epoch):
                    m.next = "STORE"

    def _store(self, m, stopping, last_chunk, model_address, trace_address):
        config, request = self._config, self.requests.payload

        def send(address, beats, size, then):
            """Ask the writer for a burst."""
            m.d.comb += [self.requests.valid.eq(1), request.address.eq(address), request.beats.eq(beats)]
            with m.If(self.requests.ready):
                m.d.sync += address.eq(address + size)
                m.next = then

        def when_sent():
            """The burst's beats are gone; go on unless the run is to stop."""
            with m.If(self.requests.ready & stopping):
                m.next = "DRAIN"
            return m.Elif(self.requests.ready)

        with m.State("STORE"):
            m.d.comb += self.storing.eq(1)
            send(model_address, config.chunk_beats, CHUNK_MODEL_BYTES, "STORED")
        with m.State("STORED"):
            m.d.comb += self.storing.eq(1)
            with when_sent():
                m.d.sync += self.store_chunk.eq(self.store_chunk + 1)
                m.next = "STORE"
                with m.If(self.store_chunk == last_chunk):
                    m.d.sync += [self.store_chunk.eq(0), self.store_output.eq(self.store_output + 1)]
                    with m.If(self.store_output == config.outputs - 1):
                        m.d.sync += self.store_output.eq(0)
                        m.next = "RECORD"
        with m.State("RECORD"):
            m.d.comb += self.store_trace.eq(1)
            send(trace_address, config.record_beats, config.record_bytes, "RECORDED")
        with m.State("RECORDED"):
            m.d.comb += self.store_trace.eq(1)
            with when_sent():
                m.next = "NEXT"
