"""All proofs."""

from __future__ import annotations

from . import bursts, flow, lanes, order, phases, reading, slave, writing

PROOFS = {
    proof.name: proof
    for module in (order, bursts, reading, writing, slave, phases, flow, lanes)
    for proof in module.PROOFS
}
