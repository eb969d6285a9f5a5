"""Random pauses for the bus agents of cocotbext-axi."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any


def pauses(chosen: Random) -> Iterator[bool]:
    """Yield a value for each cycle, True to pause: stretches without pauses, with short and with long ones."""
    while True:
        probability = chosen.choice((0.0, 0.2, 0.5, 0.9))
        for _ in range(chosen.randint(1, 100)):
            yield chosen.random() < probability


def pause_everywhere(agent: Any, chosen: Random) -> None:
    """Pause all five channels of an AxiRam, AxiMaster or AxiLiteMaster, each with a separate generator."""
    for half, names in ((agent.write_if, ("aw", "w", "b")), (agent.read_if, ("ar", "r"))):
        for name in names:
            getattr(half, f"{name}_channel").set_pause_generator(pauses(Random(chosen.getrandbits(64))))
