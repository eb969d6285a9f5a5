"""The phases of a run from start to done, and how a run ends after an error."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import of_port
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import settings_layout
from bitlane_hw.common.signatures import Bursts, RunControl
from bitlane_hw.memory.axi import OKAY, SLVERR


class Control(wiring.Component):
    """Check the registers, run the engine, store its results, and report.

    The states are IDLE; CHECK; RUN, in which the models are read and an epoch is trained; STORE and STORED, which write
    the models chunk by chunk; RECORD and RECORDED, which write a record of the trace; NEXT; and DRAIN.

    With an encoder there is ENCODE, which an encoding has instead of RUN.

    An error or an abort ends RUN and ENCODE at once. It ends a transfer after the current burst. DRAIN waits until no
    burst is outstanding; an abort during DRAIN has no effect. Of several errors in one cycle the first of this list is
    reported: refused registers, read error, write error, abort.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    start : 1 bit, in
        Pulse: start a run. It begins one cycle later.
    encode : 1 bit, in
        Pulse: start an encoding, if `start` is low. Only with an encoder.
    encoded : 1 bit, in
        The encoding is complete. Only with an encoder.
    abort : 1 bit, in
        Pulse: end the run.
    acknowledge : 1 bit, in
        Pulse: clear `done` and `error`.
    refused : 1 bit, in
        The registers do not describe a valid run. Sampled from the second cycle after `start` on.
    settings : settings_layout, in
        Geometry of the run.
    snapshots : 1 bit, in
        Store the models after each epoch, not only after the last one.
    model_out : array of ports address_bits, in
        Address of the stored models on each port.
    trace : address_bits, in
        Address of the trace.
    sizes_done : 1 bit, in
        `done` of `RegionSizes`.
    clear : 1 bit, out
        High for one cycle before a run, from a flip-flop: resets the engine, and starts `RegionSizes`.
    run : RunControl, out
        Commands to the engine, and its end of an epoch.
    reads, writes : Bursts, in
        The bursts of the block that runs, in each direction.
    encoding : 1 bit, out
        The run, or the last run, is an encoding. Only with an encoder.
    encode_enable : 1 bit, out
        The encoder may read and write. Only with an encoder.
    busy : 1 bit, out
        A run is in progress.
    done : 1 bit, out
        A run has ended and was not acknowledged.
    error : ErrorCode, out
        Why the run ended.
    epoch : 16 bits, out
        Completed epochs.
    cycles : 64 bits, out
        Clock cycles since the start.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        address = config.address_bits
        ins = {
            "start": 1, "abort": 1, "acknowledge": 1, "refused": 1, "snapshots": 1, "sizes_done": 1,
            "settings": settings_layout(config), "trace": address,
        }  # fmt: skip
        outs = {
            "clear": 1, "busy": 1, "done": 1, "error": ErrorCode, "epoch": 16, "cycles": 64,
        }  # fmt: skip
        if config.encoder:
            ins |= {"encode": 1, "encoded": 1}
            outs |= {"encoding": 1, "encode_enable": 1}
        super().__init__(
            {
                **{name: In(shape) for name, shape in ins.items()},
                **{name: Out(shape) for name, shape in outs.items()},
                "model_out": In(address).array(config.ports),
                "run": Out(RunControl(config)),
                "reads": In(Bursts()),
                "writes": In(Bursts()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        stopping = Signal()  # after an error
        draining = Signal()
        loaded = Signal()
        last_epoch = Signal()
        works = self.busy & loaded & ~stopping
        m.d.comb += [
            self.run.enable.eq(works & ~self.encoding if self._config.encoder else works),
            self.run.store_begin.eq(self.run.requests.valid & self.run.requests.ready),
        ]
        m.d.sync += last_epoch.eq(self.epoch == self.settings.epochs - 1)  # in time: an epoch takes more than one cycle
        last_chunk = register(m, (self.settings.chunks - 1)[: len(self.run.store_chunk)], "last_chunk")
        self._watch(m, stopping, draining)
        model_addresses = [
            Signal.like(address, name=of_port("model_address", port)) for port, address in enumerate(self.model_out)
        ]
        trace_address = Signal.like(self.trace)
        with m.If(self.run.load):
            m.d.sync += [held.eq(given) for held, given in zip(model_addresses, self.model_out, strict=True)]
            m.d.sync += trace_address.eq(self.trace)
        with m.FSM():
            self._begin(m, stopping, loaded)
            self._train(m, stopping, last_epoch)
            if self._config.encoder:
                self._encode(m, stopping, works)
            self._store(m, stopping, last_chunk, model_addresses, trace_address)
            with m.State("NEXT"):
                m.d.comb += self.run.epoch_go.eq(1)
                m.d.sync += self.epoch.eq(self.epoch + 1)
                m.next = "RUN"
                with m.If(last_epoch):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += draining.eq(1)
                m.d.sync += [loaded.eq(0), self.run.store_chunk.eq(0), self.run.store_output.eq(0)]
                with m.If(self.reads.idle & self.writes.idle):
                    m.d.sync += [self.busy.eq(0), self.done.eq(1)]
                    m.next = "IDLE"
        return m

    def _watch(self, m, stopping, draining):
        """Count cycles and keep the first error. In one cycle a later `fail` overrides an earlier one."""

        def fail(condition, code):
            with m.If(self.busy & ~stopping & condition):
                m.d.sync += [self.error.eq(code), stopping.eq(1)]

        with m.If(self.busy):
            m.d.sync += self.cycles.eq(self.cycles + 1)
        if self._config.encoder:
            with m.If((self.start | self.encode) & ~self.busy & ~self.clear):
                m.d.sync += self.encoding.eq(~self.start)
        with m.If(self.acknowledge & ~self.busy):
            m.d.sync += [self.done.eq(0), self.error.eq(ErrorCode.NONE), stopping.eq(0)]
        fail(self.abort & ~draining, ErrorCode.ABORTED)
        for response, slave, decode in (
            (self.writes.response, ErrorCode.WRITE_SLAVE, ErrorCode.WRITE_DECODE),
            (self.reads.response, ErrorCode.READ_SLAVE, ErrorCode.READ_DECODE),
        ):
            fail(response != OKAY, Mux(response == SLVERR, slave, decode))
        fail(register(m, self.busy, "was_busy") & self.refused, ErrorCode.CONFIGURATION)

    def _begin(self, m, stopping, loaded):
        """IDLE and CHECK: start a run and wait for the sizes."""
        start = self.start | self.encode if self._config.encoder else self.start
        m.d.sync += self.clear.eq(start & ~self.busy & ~self.clear)
        with m.State("IDLE"):
            with m.If(self.clear):
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
                m.d.comb += self.run.load.eq(1)
                with m.If(self.sizes_done):
                    m.d.sync += loaded.eq(1)
                    m.next = "RUN"
                    if self._config.encoder:
                        with m.If(self.encoding):
                            m.next = "ENCODE"

    def _encode(self, m, stopping, works):
        """ENCODE: wait for the end of the encoding."""
        m.d.comb += self.encode_enable.eq(works & self.encoding)
        with m.State("ENCODE"):
            with m.If(stopping | self.encoded):
                m.next = "DRAIN"

    def _train(self, m, stopping, last_epoch):
        """RUN: wait for the end of the epoch."""
        with m.State("RUN"):
            with m.If(stopping):
                m.next = "DRAIN"
            with m.Elif(self.run.epoch_done):
                m.d.sync += self.run.stamp.eq(self.cycles)
                m.next = "RECORD"
                with m.If(self.snapshots | last_epoch):
                    m.next = "STORE"

    def _store(self, m, stopping, last_chunk, model_addresses, trace_address):
        """STORE, STORED, RECORD and RECORDED: write the models and the record of the trace."""
        config, request = self._config, self.run.requests.payload

        def send(addresses, beats, size, then):
            """Request a burst from the writer of each address."""
            m.d.comb += self.run.requests.valid.eq(1)
            m.d.comb += [request.addresses.eq(Cat(addresses)), request.beats.eq(beats)]
            with m.If(self.run.requests.ready):
                m.d.sync += [address.eq(address + size) for address in addresses]
                m.next = then

        def when_sent():
            """Open a branch for the end of the burst; if the run must stop, go to DRAIN instead."""
            with m.If(self.run.requests.ready & stopping):
                m.next = "DRAIN"
            return m.Elif(self.run.requests.ready)

        with m.State("STORE"):
            m.d.comb += self.run.storing.eq(1)
            send(model_addresses, config.chunk_beats, config.chunk_bytes, "STORED")
        with m.State("STORED"):
            m.d.comb += self.run.storing.eq(1)
            with when_sent():
                m.d.sync += self.run.store_chunk.eq(self.run.store_chunk + 1)
                m.next = "STORE"
                with m.If(self.run.store_chunk == last_chunk):
                    m.d.sync += [
                        self.run.store_chunk.eq(0),
                        self.run.store_output.eq(self.run.store_output + 1),
                    ]
                    with m.If(self.run.store_output == config.outputs - 1):
                        m.d.sync += self.run.store_output.eq(0)
                        m.next = "RECORD"
        with m.State("RECORD"):
            m.d.comb += self.run.store_trace.eq(1)
            send([trace_address], config.record_beats, config.record_bytes, "RECORDED")
        with m.State("RECORDED"):
            m.d.comb += self.run.store_trace.eq(1)
            with when_sent():
                m.next = "NEXT"
