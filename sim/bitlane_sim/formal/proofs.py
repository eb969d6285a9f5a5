"""All proofs."""

from __future__ import annotations

from . import order

PROOFS = {proof.name: proof for proof in (*order.PROOFS,)}
