"""All proofs, by name."""

from __future__ import annotations

from . import (
    address_generator,
    burst_generator,
    control,
    encoder,
    engine,
    gp_port,
    hp_ports,
    passes,
    port_guard,
    read_path,
    registers,
    sequencer,
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
        passes,
        engine,
        encoder,
        gp_port,
        hp_ports,
        port_guard,
    )
    for proof in module.PROOFS
}
