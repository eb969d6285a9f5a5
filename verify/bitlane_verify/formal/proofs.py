"""All proofs, by name."""

from __future__ import annotations

from . import (
    address_generator,
    after_reset,
    burst_generator,
    control,
    encoder,
    engine,
    gp_port,
    hp_ports,
    passes,
    port_credits,
    port_guard,
    read_path,
    registers,
    sequencer,
    table_lanes,
    write_path,
)

PROOFS = {
    proof.name: proof
    for module in (
        address_generator,
        burst_generator,
        read_path,
        write_path,
        registers,
        control,
        sequencer,
        table_lanes,
        passes,
        engine,
        encoder,
        after_reset,
        gp_port,
        hp_ports,
        port_credits,
        port_guard,
    )
    for proof in module.PROOFS
}
