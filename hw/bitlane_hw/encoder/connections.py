"""The encoder beside the engine: one memory port, one control, one register file."""

from __future__ import annotations

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from bitlane.contract.encoding import ENCODER_LANES
from bitlane.contract.registers import CONTROL_ENCODE
from bitlane_hw.control.registers import fields_of

SHARED = ("read_response", "write_response", "read_idle", "write_idle")  # inputs of the control that both blocks drive
SHARED_COUNTERS = ("beats",)  # registers that both blocks drive


def connect_encoder(m: Module, top: wiring.Component, registers, control, engine, encoder) -> None:
    """Connect the encoder to registers and control, and share the memory port of the top with the engine.

    Only one of the two runs. The other one has no burst outstanding, so it drops what the port answers.

    Parameters
    ----------
    m : Module
        Module that receives the logic.
    top : Accelerator
        Its memory port is connected.
    registers, control, engine, encoder
        The blocks of the accelerator.
    """
    encode = fields_of("encode", registers.encode)
    settings = encoder.settings
    m.d.sync += [
        settings.value_type.eq(encode.value_type),
        settings.last_part.eq((registers.features - 1) // ENCODER_LANES),
        settings.rows.eq(registers.groups),
        settings.base.eq(encode.encode_base),
        settings.base_digits.eq(fields_of("mode", registers.mode).base_digits),
        settings.sets.eq(encode.encode_sets),
        settings.first_set.eq(encode.encode_first),
    ]
    addresses = [registers.base_address, registers.draw_address]
    while len(addresses) < len(encoder.regions):
        addresses.append((addresses[-1] + registers.draw_stride)[: len(encoder.regions[0])])
    m.d.comb += [
        *(region.eq(address) for region, address in zip(encoder.regions, addresses, strict=True)),
        encoder.seed.eq(registers.encode_seed),
        encoder.source.eq(registers.source_address),
        encoder.lines.eq(registers.source_lines),
        encoder.load.eq(control.load),
        encoder.enable.eq(control.encode_enable),
        control.encode.eq((registers.control & CONTROL_ENCODE).any()),
        control.encoded.eq(encoder.done),
        registers.beats.eq(engine.beats | encoder.beats),  # of the one that did not run they are 0
        control.read_response.eq(engine.read_response | encoder.read_response),
        control.write_response.eq(engine.write_response | encoder.write_response),
        control.read_idle.eq(engine.read_idle & encoder.read_idle),
        control.write_idle.eq(engine.write_idle & encoder.write_idle),
    ]
    for port, first, second in (
        (top.m_axi_read, engine.read, encoder.read),
        (top.m_axi_write, engine.write, encoder.write),
    ):
        for name, member in first.signature.members.items():
            if member.flow == Out:
                m.d.comb += getattr(port, name).eq(Mux(control.encoding, getattr(second, name), getattr(first, name)))
            else:
                m.d.comb += [getattr(block, name).eq(getattr(port, name)) for block in (first, second)]
