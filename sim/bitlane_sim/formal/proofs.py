"""All proofs."""

from __future__ import annotations

from . import bursts, flow, gp_port, hp_ports, lanes, order, phases, reading, slave, writing

PROOFS = {
    proof.name: proof
    for module in (order, bursts, reading, writing, slave, phases, flow, lanes, gp_port, hp_ports)
    for proof in module.PROOFS
}
