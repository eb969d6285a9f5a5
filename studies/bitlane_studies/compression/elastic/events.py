"""Random deaths and joins, spread evenly over the rounds of a training."""

from __future__ import annotations

import random
from dataclasses import dataclass

LEAST = 2  # members that stay
KINDS = ("dies in training", "dies in a round", "joins")


@dataclass(frozen=True)
class ElasticEvent:
    """Something that happens to a member.

    Attributes
    ----------
    time : float
        When, in rounds since the begin.
    kind : str
        One of `KINDS`.
    """

    time: float
    kind: str


def draw_events(count: int, members: int, rounds: int, rng: random.Random) -> list[ElasticEvent]:
    """Return deaths and joins, in order, that leave from `LEAST` to `members` members.

    Parameters
    ----------
    count : int
        Number of events.
    members : int
        Members at the begin, and the most.
    rounds : int
        Rounds of the training; nothing happens in the first two and the last tenth.
    rng : random.Random
        The source of randomness.
    """
    times = sorted(rng.uniform(2, 0.9 * rounds) for _ in range(count))
    events, alive = [], members
    for time in times:
        joins = alive == LEAST or (alive < members and rng.random() < 0.5)
        alive += 1 if joins else -1
        events.append(ElasticEvent(time, "joins" if joins else rng.choice(KINDS[:2])))
    return events
