"""How sparse compressors send what they have selected: encode, keep what rounding lost, and average over ranks."""

from __future__ import annotations

from torch import Tensor

from ..codecs import tensors
from ..collectives.link import Link


def take(indices: Tensor, vector: Tensor, *others: Tensor, bits: int, seed: int | None = None) -> Tensor:
    """Return the values at ascending indices as a body of `tensors.encode`, and remove them from the vector.

    What rounding to `bits` lost remains in the vector. `others` are set to zero at the indices.
    """
    values = vector.index_select(0, indices)
    body, decoded = tensors.encode(indices, values, len(vector), bits, seed)
    keep_error(vector, indices, values, decoded)
    for each in others:
        each.index_fill_(0, indices, 0)
    return body


def keep_error(vector: Tensor, indices: Tensor, values: Tensor, decoded: Tensor) -> None:
    """Set a vector at the indices of encoded values to what the ranks do not decode: zero in float32."""
    if decoded is values:
        vector.index_fill_(0, indices, 0)
    else:
        vector.index_copy_(0, indices, values - decoded)


def all_gather_average(link: Link, body: Tensor, out: Tensor, bits: int) -> None:
    """Average the sparse vectors of all ranks.

    Each rank sends its payload to all, and sums all of them in float32 in the order of ranks, so that all ranks get
    identical bytes. A payload is freed when it is added.

    Parameters
    ----------
    link : Link
        The connection to the other ranks.
    body : Tensor, uint8
        The sparse vector of this rank, from `tensors.encode`.
    out : Tensor, float32 [n]
        The average; zero where no rank has a value.
    bits : int
        Bits a value, as in `tensors.encode`.
    """
    bodies = link.all_gather(body, link.gather_lengths(len(body)))
    out.zero_()
    while bodies:
        indices, values = tensors.decode(bodies.pop(0), len(out), out.device, bits)
        out.scatter_add_(0, indices, values)  # indices of one rank are unique
    out.mul_(1 / link.size)
