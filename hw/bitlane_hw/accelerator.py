"""The top component of the accelerator."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    IDENTITY,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
    VERSION,
    of_port,
)
from bitlane_hw.build_digest import build_digest
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import settings_layout
from bitlane_hw.control.checks import configuration_errors, encoding_errors
from bitlane_hw.control.control import Control
from bitlane_hw.control.registers import ADDRESS_BITS, Registers, fields_of
from bitlane_hw.encoder.connections import connect_encoders
from bitlane_hw.encoder.encoder import Encoder
from bitlane_hw.engine import Engine
from bitlane_hw.memory.axi import AXI4Lite, AXI4Read, AXI4Write, memory_names, port_name
from bitlane_hw.memory.burst_generator import BASE, DRAW
from bitlane_hw.memory.regions import RegionSizes


class Accelerator(wiring.Component):
    """Train linear models by SGD on samples in memory: registers in, models and losses out (`docs/design.md`).

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.
    build : int or None, default=None
        Value of the `build` register; None for `build_digest` of the configuration.

    Members
    -------
    s_axi : AXI4Lite, in
        The registers (`docs/registers.md`).
    m_axi_read : AXI4Read, out
        Read channels of the memory port, `width` bits. With several ports m_axi0_read, m_axi1_read and so on, of
        `port_width` bits.
    m_axi_write : AXI4Write, out
        Write channels of the memory port, likewise.
    irq : 1 bit, out
        High while a run is done and not acknowledged, if the interrupt is enabled.
    """

    def __init__(self, config: AcceleratorConfig, build: int | None = None):
        self._config = config
        self._build = build_digest(config) if build is None else build
        names = memory_names(config)
        super().__init__(
            {
                "s_axi": In(AXI4Lite(ADDRESS_BITS)),
                **{f"{name}_read": Out(AXI4Read(config.address_bits, config.port_width)) for name in names},
                **{f"{name}_write": Out(AXI4Write(config.address_bits, config.port_width)) for name in names},
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.registers = registers = Registers(
            config.table_lanes, config.random_rounding, config.encoder, config.shards, config.ports
        )
        m.submodules.control = control = Control(config)
        m.submodules.sizes = sizes = RegionSizes(config)
        clear = Signal()
        m.submodules.engine = engine = ResetInserter(clear)(Engine(config))
        settings = Signal(settings_layout(config))

        connect(m, flipped(self.s_axi), registers.bus)
        encoders = []
        if config.encoder:
            encoders = [ResetInserter(clear)(Encoder(config, port)) for port in range(config.ports)]
            for port, encoder in enumerate(encoders):
                m.submodules[port_name(config, "encoder", port)] = encoder
            connect_encoders(m, self, config, registers, control, engine, encoders)
        else:
            for name, memory in zip(memory_names(config), engine.ports, strict=True):
                connect(m, memory.read, flipped(getattr(self, f"{name}_read")))
                connect(m, memory.write, flipped(getattr(self, f"{name}_write")))
        connect(m, control.run.requests, engine.run.requests)
        m.d.comb += clear.eq(control.clear)
        self._connect_settings(m, registers, settings)
        self._connect_run(m, registers, control, engine, sizes, settings, encoders)
        self._connect_status(m, registers, control, engine)
        return m

    def _connect_settings(self, m, registers, settings):
        """Derive the geometry of the run from the registers, one cycle later."""
        mode = fields_of("mode", registers.mode)
        base_digits, chunk_features = mode.base_digits, self._config.chunk_features
        if self._config.table_lanes:
            base_digits = mode.base_digits >> 1
            m.d.sync += settings.half_digit.eq(mode.base_digits[0])
        m.d.sync += [
            settings.chunks.eq((registers.features + (chunk_features - 1)) // chunk_features),
            settings.last_lane.eq(registers.features - 1),
            *(settings[name].eq(getattr(registers, name)) for name in ("groups", "batch_groups", "epochs")),
            settings.base_digits.eq(base_digits),
            *(
                settings[name].eq(mode[name])
                for name in ("draws", "staleness", "batch_tail", "epoch_tail", "weight_exponent")
            ),
        ]

    def _base_words(self, m, settings):
        """Return the words of a row in the base region, one cycle later; with table lanes those of its half digits
        and base digits.
        """
        chunks = settings.chunks
        if not self._config.table_lanes:
            return register(m, chunks, "chunk_factor") * register(m, settings.base_digits, "digit_factor")
        chunk_words = register(m, Mux(settings.base_digits[0], chunks, 0), "chunk_words")
        return chunk_words + register(m, Mux(settings.half_digit, (chunks + 1) >> 1, 0), "half_digit_words")

    def _connect_run(self, m, registers, control, engine, sizes, settings, encoders):
        """Connect the registers of a run and the control to the engine, and check the registers."""
        objective = engine.objective
        mode = fields_of("mode", registers.mode)
        base_words = register(m, self._base_words(m, settings), "base_words")
        row_words = base_words + Mux(settings.draws, settings.chunks, 0)
        models_in, models_out = (
            [getattr(registers, of_port(name, port)) for port in range(self._config.ports)]
            for name in ("model_in", "model_out")
        )
        for port, memory in enumerate(engine.ports):
            base, draw = (getattr(registers, of_port(name, port)) for name in ("base_address", "draw_address"))
            regions = {
                BASE: (base, registers.base_stride, sizes.base_beats),
                DRAW: (draw, registers.draw_stride, sizes.draw_beats),
            }
            for i, (address, stride, beats) in regions.items():
                region = memory.regions[i]
                m.d.comb += [region.address.eq(address), region.stride.eq(stride), region.beats.eq(beats)]
        self._connect_control(m, control, engine)
        m.d.comb += [
            engine.draw_sets.eq(registers.draw_sets),
            *(memory.model_in.eq(model_in) for memory, model_in in zip(engine.ports, models_in, strict=True)),
            engine.step.eq(registers.step),
            engine.step_negative.eq(registers.step_negative),
            engine.penalty_step.eq(registers.penalty_step),
            engine.phase.eq(registers.phase),
            engine.decay.eq(registers.decay),
        ]
        if self._config.random_rounding:
            cuts = fields_of("cuts", registers.cuts)
            m.d.comb += [
                engine.model_cut.eq(cuts.model_cut),
                engine.scaled_gradient_cut.eq(cuts.scaled_gradient_cut),
                engine.seed.eq(registers.seed),
            ]
        violations = configuration_errors(registers, self._config, settings, row_words)
        refused = register(m, violations, "violations").any()
        if self._config.encoder:
            errors = register(m, encoding_errors(registers, self._config), "encoding_violations")
            exhausted = reduce(or_, (encoder.exhausted for encoder in encoders))
            refused = Mux(control.encoding, errors.any() | exhausted, refused)
        m.d.sync += control.refused.eq(refused)
        m.d.comb += [
            engine.settings.eq(settings),
            objective.loss.eq(mode.loss),
            objective.prox.eq(mode.prox),
            objective.low.eq(registers.bounds[:16]),
            objective.high.eq(registers.bounds[16:]),
            objective.unpenalized_intercept.eq(mode.unpenalized_intercept),
            sizes.start.eq(control.clear),
            sizes.settings.eq(settings),
            sizes.base_words.eq(base_words),
            control.sizes_done.eq(sizes.done),
            control.settings.eq(settings),
            control.snapshots.eq(mode.snapshots),
            *(address.eq(model_out) for address, model_out in zip(control.model_out, models_out, strict=True)),
            control.trace.eq(registers.trace),
            control.start.eq((registers.control & CONTROL_START).any()),
            control.abort.eq((registers.control & CONTROL_ABORT).any()),
            control.acknowledge.eq((registers.control & CONTROL_ACKNOWLEDGE).any()),
        ]

    def _connect_control(self, m, control, engine):
        """Connect the control to the engine; with an encoder `connect_encoders` connects what both blocks report."""
        # `connect` would sort these statements by name, and so change the netlist that the package's bitstream is of.
        m.d.comb += control.run.epoch_done.eq(engine.run.epoch_done)
        if not self._config.encoder:
            m.d.comb += [
                control.reads.response.eq(engine.reads.response),
                control.writes.response.eq(engine.writes.response),
                control.reads.idle.eq(engine.reads.idle),
                control.writes.idle.eq(engine.writes.idle),
            ]
        m.d.comb += [
            engine.run.enable.eq(control.run.enable),
            engine.run.load.eq(control.run.load),
            engine.run.epoch_go.eq(control.run.epoch_go),
            engine.run.storing.eq(control.run.storing),
            engine.run.store_chunk.eq(control.run.store_chunk),
            engine.run.store_output.eq(control.run.store_output),
            engine.run.store_begin.eq(control.run.store_begin),
            engine.run.store_trace.eq(control.run.store_trace),
            engine.run.stamp.eq(control.run.stamp),
        ]

    def _connect_status(self, m, registers, control, engine):
        """Connect the constants of the build, the status and the counters to their registers."""
        config = self._config
        if config.random_rounding:
            m.d.comb += [registers.random_rounding.eq(1), registers.seed_now.eq(engine.seed_now)]
        if config.table_lanes:
            m.d.comb += registers.level_slots.eq(config.level_slots)
        if config.encoder:
            m.d.comb += registers.encoder.eq(config.encoder)
        if config.shards > 1:
            m.d.comb += registers.shards.eq(config.shards)
        if config.ports > 1:
            m.d.comb += registers.ports.eq(config.ports)
        status = control.busy * STATUS_BUSY | control.done * STATUS_DONE | control.error << STATUS_ERROR_SHIFT
        m.d.comb += [
            self.irq.eq(control.done & registers.irq_enable),
            registers.locked.eq(control.clear | control.busy),
            registers.identity.eq(IDENTITY),
            registers.version.eq(VERSION),
            registers.build.eq(self._build),
            registers.max_features.eq(config.max_features),
            registers.max_row_words.eq(config.max_row_words),
            registers.port_bits.eq(config.width),
            registers.outputs.eq(config.outputs),
            registers.address_bits.eq(config.address_bits),
            registers.status.eq(status),
            registers.epoch.eq(control.epoch),
            registers.cycles.eq(control.cycles),
            registers.step_now.eq(engine.step_now),
            registers.step_negative_now.eq(engine.step_negative_now),
            registers.penalty_step_now.eq(engine.penalty_step_now),
            registers.phase_now.eq(engine.phase_now),
            *([] if config.encoder else [registers.beats.eq(engine.beats)]),
            registers.stall_memory.eq(engine.stall_memory),
            registers.stall_model.eq(engine.stall_model),
            registers.saturations.eq(engine.saturations),
        ]
