"""The whole accelerator."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .axi import AXI4Lite, AXI4Read, AXI4Write
from .checks import configuration_error
from .config import AcceleratorConfig
from .contract import (
    CHUNK,
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    IDENTITY,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
    VERSION,
    WORD_BITS,
)
from .control import Control
from .engine import Engine
from .payloads import settings_layout
from .regions import RegionSizes
from .registers import ADDRESS_BITS, Registers
from .requester import BASE, DRAW


class Accelerator(wiring.Component):
    """SGD on linear models over samples in memory: registers in, model and losses out (`docs/design.md`).

    Members
    -------
    s_axi: In, AXI4Lite, the registers (`docs/registers.md`).
    m_axi: Out, the memory port, 64 bits; read and write half.
    irq: Out(1), high while a run is done, not acknowledged, and enabled.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "s_axi": In(AXI4Lite(ADDRESS_BITS)),
                "m_axi_read": Out(AXI4Read(config.address_bits)),
                "m_axi_write": Out(AXI4Write(config.address_bits)),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        m.submodules.registers = registers = Registers()
        m.submodules.control = control = Control(config)
        m.submodules.sizes = sizes = RegionSizes(config)
        clear = Signal()
        m.submodules.engine = engine = ResetInserter(clear)(Engine(config))
        settings = Signal(settings_layout(config))

        connect(m, flipped(self.s_axi), registers.bus)
        connect(m, engine.read, flipped(self.m_axi_read))
        connect(m, engine.write, flipped(self.m_axi_write))
        connect(m, control.requests, engine.requests)
        m.d.comb += clear.eq(control.clear)
        self._settings(m, registers, settings)
        self._run(m, registers, control, engine, sizes, settings)
        self._report(m, registers, control, engine)
        return m

    def _settings(self, m, registers, settings):
        m.d.comb += [
            settings.chunks.eq((registers.features + (CHUNK - 1)) // CHUNK),
            settings.base_digits.eq(registers.base_digits),
            settings.draws.eq(registers.draws),
            settings.rows.eq(registers.rows),
            settings.batch.eq(registers.batch),
            settings.epochs.eq(registers.epochs),
        ]

    def _run(self, m, registers, control, engine, sizes, settings):
        last_lane = (registers.features - 1)[: (CHUNK - 1).bit_length()]
        row_words = settings.chunks * settings.base_digits + Mux(settings.draws, settings.chunks, 0)
        regions = {
            BASE: (registers.base_address, registers.base_stride, sizes.base_words),
            DRAW: (registers.draw_address, registers.draw_stride, sizes.draw_words),
        }
        for i, (address, stride, words) in regions.items():
            region = engine.regions[i]
            m.d.comb += [region.address.eq(address), region.stride.eq(stride), region.words.eq(words)]
        for name in ("epoch_done", "read_response", "write_response", "read_idle", "write_idle"):
            m.d.comb += getattr(control, name).eq(getattr(engine, name))
        for name in (
            "enable",
            "load",
            "epoch_go",
            "store_chunk",
            "fetch",
            "capture",
            "capture_trace",
            "stamp",
        ):
            m.d.comb += getattr(engine, name).eq(getattr(control, name))
        for name in ("sets", "model_in", "step", "rate", "phase", "decay"):
            m.d.comb += getattr(engine, name).eq(getattr(registers, name))
        m.d.comb += [
            engine.settings.eq(settings),
            engine.lane_mask.eq(Cat(j <= last_lane for j in range(CHUNK))),
            engine.shrink_shift.eq(registers.shrink),
            sizes.start.eq(control.sizes_start),
            sizes.settings.eq(settings),
            control.sizes_done.eq(sizes.done),
            control.settings.eq(settings),
            control.snapshots.eq(registers.snapshots),
            control.model_out.eq(registers.model_out),
            control.trace.eq(registers.trace),
            control.refused.eq(configuration_error(registers, self._config, row_words)),
            control.start.eq((registers.control & CONTROL_START).any()),
            control.abort.eq((registers.control & CONTROL_ABORT).any()),
            control.acknowledge.eq((registers.control & CONTROL_ACKNOWLEDGE).any()),
        ]

    def _report(self, m, registers, control, engine):
        config = self._config
        status = control.busy * STATUS_BUSY | control.done * STATUS_DONE | control.error << STATUS_ERROR_SHIFT
        m.d.comb += [
            self.irq.eq(control.done & registers.irq_enable),
            registers.locked.eq(control.busy),
            registers.identity.eq(IDENTITY),
            registers.version.eq(VERSION),
            registers.build.eq(config.digest),
            registers.max_features.eq(config.max_features),
            registers.max_row_words.eq(config.max_row_words),
            registers.port_bits.eq(WORD_BITS),
            registers.address_bits.eq(config.address_bits),
            registers.status.eq(status),
            registers.epoch.eq(control.epoch),
            registers.cycles.eq(control.cycles),
            *(
                getattr(registers, name).eq(getattr(engine, name))
                for name in (
                    "step_now",
                    "rate_now",
                    "phase_now",
                    "beats",
                    "stall_memory",
                    "stall_model",
                    "saturations",
                )
            ),
        ]
