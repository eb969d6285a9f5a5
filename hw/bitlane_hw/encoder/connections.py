"""The encoders beside the engine: the memory ports, one control, one register file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import CHUNK_PARTS, ENCODER_LANES
from bitlane.contract.layout import CHUNK
from bitlane.contract.registers import CONTROL_ENCODE, SOURCE_ADDRESS, of_port
from bitlane_hw.control.registers import fields_of
from bitlane_hw.memory.axi import memory_names

from .encoder import Encoder


def connect_encoders(
    m: Module,
    top: wiring.Component,
    config: AcceleratorConfig,
    registers,
    control,
    engine,
    encoders: Sequence[Encoder],
) -> None:
    """Connect the encoder of each memory port to registers and control, and share the port with the engine.

    Either the engine or the encoders run. The others have no burst outstanding, so they drop what the ports answer.

    Parameters
    ----------
    m : Module
        Module that receives the logic.
    top : Accelerator
        Its memory ports are connected.
    config : AcceleratorConfig
        Sizes of the build.
    registers, control, engine, encoders
        The blocks of the accelerator.
    """
    for port, encoder in enumerate(encoders):
        _connect_settings(m, config, registers, encoder)
        _connect_regions(m, registers, encoder, port)
        m.d.comb += [encoder.load.eq(control.run.load), encoder.enable.eq(control.encode_enable)]
    blocks = [engine, *encoders]
    m.d.comb += [
        control.encode.eq((registers.control & CONTROL_ENCODE).any()),
        control.encoded.eq(reduce(and_, (encoder.done for encoder in encoders))),
        registers.beats.eq(engine.beats | encoders[0].beats),  # of the one that did not run they are 0
        control.reads.response.eq(reduce(or_, (block.reads.response for block in blocks))),
        control.writes.response.eq(reduce(or_, (block.writes.response for block in blocks))),
        control.reads.idle.eq(reduce(and_, (block.reads.idle for block in blocks))),
        control.writes.idle.eq(reduce(and_, (block.writes.idle for block in blocks))),
    ]
    for port, (encoder, name) in enumerate(zip(encoders, memory_names(config), strict=True)):
        memory = engine.ports[port]
        _share(m, control.encoding, getattr(top, f"{name}_read"), memory.read, encoder.read)
        _share(m, control.encoding, getattr(top, f"{name}_write"), memory.write, encoder.write)


def _connect_settings(m: Module, config: AcceleratorConfig, registers, encoder: Encoder) -> None:
    """Derive the settings of an encoder from the registers, one cycle later."""
    encode, mode = fields_of("encode", registers.encode), fields_of("mode", registers.mode)
    settings = encoder.settings
    m.d.sync += [
        settings.value_type.eq(encode.value_type),
        settings.last_part.eq(_last_part(registers.features, config.shards)),
        settings.rows.eq(registers.groups),
        settings.base.eq(encode.encode_base),
        settings.base_digits.eq(mode.base_digits),
        settings.sets.eq(encode.encode_sets),
        settings.first_set.eq(encode.encode_first),
    ]
    if config.rows_per_beat > 1:
        m.d.sync += [
            settings.batch_groups.eq(registers.batch_groups),
            settings.batch_tail.eq(mode.batch_tail),
            settings.epoch_tail.eq(mode.epoch_tail),
        ]


def _last_part(features: Value, shards: int) -> Value:
    """Return the index of the last part of a row in the first shard, which has the most."""
    last = features - 1
    if shards == 1:
        return last // ENCODER_LANES
    rest, chunk = last % (CHUNK * shards), last // (CHUNK * shards)
    return Cat(Mux(rest >= CHUNK, CHUNK_PARTS - 1, rest // ENCODER_LANES)[: (CHUNK_PARTS - 1).bit_length()], chunk)


def _connect_regions(m: Module, registers, encoder: Encoder, port: int) -> None:
    """Connect the addresses of the regions on a port, and the seed."""
    base, draw, source = (
        getattr(registers, of_port(name, port)) for name in ("base_address", "draw_address", SOURCE_ADDRESS)
    )
    addresses = [base, draw]
    while len(addresses) < len(encoder.regions):
        addresses.append((addresses[-1] + registers.draw_stride)[: len(encoder.regions[0])])
    m.d.comb += [
        *(region.eq(address) for region, address in zip(encoder.regions, addresses, strict=True)),
        encoder.seed.eq(registers.encode_seed),
        encoder.source.eq(source),
        encoder.lines.eq(registers.source_lines),
    ]


def _share(m: Module, encoding: Value, port, first, second) -> None:
    """Connect channels of a memory port to the second block while `encoding` is high, and else to the first."""
    for name, member in first.signature.members.items():
        if member.flow == Out:
            m.d.comb += getattr(port, name).eq(Mux(encoding, getattr(second, name), getattr(first, name)))
        else:
            m.d.comb += [getattr(block, name).eq(getattr(port, name)) for block in (first, second)]
