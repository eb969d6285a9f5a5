"""What `debug=True` checks in every step: that all ranks got the same, and that nothing was lost.

Both checks exchange what they need, so that all ranks come to the same answer; they cost more than the step itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor

from bitlane.errors import BitlaneError

from ..codecs.groups import Groups, shard_groups
from ..collectives.link import Link
from ..compressor import Layout, Reducer

TOLERANCE = 1e-6  # of the norm of all that came in and went out of a parameter; rounding in float32 is about 4e-8


def average_with_checks(reducer: Reducer, vector: Tensor, step: int, link: Link, layout: Layout) -> None:
    """`reducer.average`, then both checks; BitlaneError, on all ranks, where one of them fails."""
    came, before = vector.clone(), reducer.residual()
    reducer.average(vector, step)
    check_equal(link, vector, step)
    after = reducer.residual()
    if before is not None and after is not None:
        check_conserved(link, layout, torch.stack([came, before]), torch.stack([vector, after]), step)


def check_equal(link: Link, average: Tensor, step: int) -> None:
    """Raise BitlaneError, on all ranks, unless `average` has the same bytes on each."""
    digest = blake2b(average.cpu().numpy().tobytes(), digest_size=16).digest()
    own = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(link.device)
    digests = [bytes(each.cpu().numpy()) for each in link.all_gather(own, [len(own)] * link.size)]
    odd = [rank for rank, each in enumerate(digests) if each != digests[0]]
    if odd:
        raise BitlaneError(f"step {step}: the average of rank {odd[0]} differs from that of rank 0")


def check_conserved(link: Link, layout: Layout, came: Tensor, went: Tensor, step: int) -> None:
    """Raise BitlaneError, on all ranks, unless the sum over ranks of what came is that of what went.

    came: float32 [2, n], this rank's gradient, and what it had kept back. went: float32 [2, n], the average, and what
    it keeps back now.
    """
    lost = came.double().sum(0) - went.double().sum(0)
    size = came.double().abs().sum(0) + went.double().abs().sum(0)
    parts = shard_groups(Groups.of(len(lost)), link.size)
    bodies = [torch.cat([lost[part.begin : part.end], size[part.begin : part.end]]) for part in parts]
    own = parts[link.rank]
    received = link.exchange([body.view(torch.uint8) for body in bodies], [16 * (own.end - own.begin)] * link.size)
    lost, size = _sum(received).view(2, -1)
    squares = torch.zeros(len(layout), 2, dtype=torch.float64, device=lost.device)
    for number, place in enumerate(layout):
        inside = slice(max(place.begin - own.begin, 0), max(place.end - own.begin, 0))
        squares[number, 0], squares[number, 1] = (lost[inside] ** 2).sum(), (size[inside] ** 2).sum()
    gathered = link.all_gather(squares.view(-1).view(torch.uint8), [16 * len(layout)] * link.size)
    norms = _sum(gathered).view(-1, 2).sqrt()
    for number, (gone, there) in enumerate(norms.tolist()):
        if not gone <= TOLERANCE * there:
            raise BitlaneError(
                f"step {step}: parameter {number} of shape {layout[number].shape} is not conserved: of a norm of "
                f"{there:.3g}, {gone:.3g} is neither applied nor kept back"
            )


def _sum(bodies: Sequence[Tensor]) -> Tensor:
    """float64, in order of rank."""
    return torch.stack([body.view(torch.float64) for body in bodies]).sum(0)
