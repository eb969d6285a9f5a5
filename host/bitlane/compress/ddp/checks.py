"""The checks of `debug=True`: identical averages on all ranks, and conservation of gradients and residuals.

Both checks exchange data, so that all ranks come to the same result. They take longer than the step itself.
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

TOLERANCE = 1e-6  # relative to the norm of all terms of a parameter; float32 rounding contributes about 4e-8


def average_with_checks(reducer: Reducer, vector: Tensor, step: int, link: Link, layout: Layout) -> None:
    """Call `reducer.average`, then both checks; raise BitlaneError on all ranks if one of them fails."""
    gradient, before = vector.clone(), reducer.residual()
    reducer.average(vector, step)
    check_equal(link, vector, step)
    after = reducer.residual()
    if before is not None and after is not None:
        inputs, outputs = torch.stack([gradient, before]), torch.stack([vector, after])
        check_conserved(link, layout, inputs, outputs, step, reducer.residual_rounding())


def check_equal(link: Link, vector: Tensor, step: int, name: str = "average") -> None:
    """Raise BitlaneError, on all ranks, unless a vector has the same bytes on each; the message has its `name`."""
    digest = blake2b(vector.cpu().numpy().tobytes(), digest_size=16).digest()
    own = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(link.device)
    digests = [bytes(each.cpu().numpy()) for each in link.all_gather(own, [len(own)] * link.size)]
    odd = [rank for rank, each in enumerate(digests) if each != digests[0]]
    if odd:
        raise BitlaneError(f"step {step}: the {name} of rank {odd[0]} differs from that of rank 0")


def check_conserved(
    link: Link, layout: Layout, inputs: Tensor, outputs: Tensor, step: int, rounding: Tensor | None = None
) -> None:
    """Raise BitlaneError, on all ranks, unless inputs and outputs have the same sum over ranks.

    Parameters
    ----------
    link : Link
        The connection to the other ranks.
    layout : Layout
        The parameters of the model.
    inputs : Tensor, float32 [2, n]
        The gradient of this rank, and its residual before the step.
    outputs : Tensor, float32 [2, n]
        The average, and the residual of this rank after the step.
    step : int
        Number of the step, for the message.
    rounding : Tensor, float32 [n], or None
        What the sums may differ by besides rounding in float32, on this rank: that of residuals of 16 bits.
    """
    lost = inputs.double().sum(0) - outputs.double().sum(0)
    allowed = TOLERANCE * (inputs.double().abs().sum(0) + outputs.double().abs().sum(0))
    if rounding is not None:
        allowed += rounding
    shards = shard_groups(Groups.of(len(lost)), link.size)
    bodies = [torch.cat([lost[each.begin : each.end], allowed[each.begin : each.end]]) for each in shards]
    own = shards[link.rank]
    received = link.exchange([body.view(torch.uint8) for body in bodies], [16 * (own.end - own.begin)] * link.size)
    lost, allowed = _sum(received, inputs.device).view(2, -1)
    squares = torch.zeros(len(layout), 2, dtype=torch.float64, device=lost.device)
    for number, span in enumerate(layout):
        inside = slice(max(span.begin - own.begin, 0), max(span.end - own.begin, 0))
        squares[number, 0], squares[number, 1] = (lost[inside] ** 2).sum(), (allowed[inside] ** 2).sum()
    gathered = link.all_gather(squares.view(-1).view(torch.uint8), [16 * len(layout)] * link.size)
    norms = _sum(gathered, inputs.device).view(-1, 2).sqrt()
    for number, (lost_norm, allowed_norm) in enumerate(norms.tolist()):
        if not lost_norm <= allowed_norm:
            raise BitlaneError(
                f"step {step}: parameter {number} of shape {layout[number].shape} is not conserved: a norm of "
                f"{lost_norm:.3g} is neither applied nor in a residual; rounding explains at most {allowed_norm:.3g}"
            )


def _sum(bodies: Sequence[Tensor], device: torch.device) -> Tensor:
    """Sum the bodies, as float64, in the order of ranks."""
    return torch.stack([body.to(device).view(torch.float64) for body in bodies]).sum(0)
