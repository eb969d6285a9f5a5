"""How much is measured of LQ-SGD's claims."""

from __future__ import annotations

from dataclasses import dataclass

from .. import claim


@dataclass(frozen=True)
class Size(claim.Size):
    """How much is measured.

    Parameters
    ----------
    attacked: images behind whose gradients the attackers are.
    attack_steps: of an attack. victim_steps: of the training of the network that is attacked.
    """

    attacked: int
    attack_steps: int
    victim_steps: int


FULL = Size("full", 3, 8, 200, 300)
QUICK = Size("quick", 2, 2, 10, 3)
