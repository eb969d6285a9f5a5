"""Selection by chunk: the largest values of each 4,096, with no common threshold and no search of the whole vector."""

from __future__ import annotations

import torch
from torch import Tensor

from ..codecs import tensors
from ..codecs.levels import CHUNK
from .shares import density_count

BLOCK = CHUNK << 7  # values whose magnitudes are held at a time


class ChunkSelection:
    """Selects a share of each chunk. It has no state, and each segment is cut into chunks for itself."""

    def select(self, values: Tensor, density: float) -> Tensor:
        """Return the indices of the largest magnitudes of each chunk of values, float32 [n].

        Returns
        -------
        Tensor, int64 [<= n]
            Ascending. A chunk has `density_count` of them, fewer if fewer values are nonzero: zeros are never selected.
            Of equal magnitudes the first are taken.
        """
        full = len(values) - len(values) % CHUNK
        blocks = [(begin, values[begin : min(begin + BLOCK, full)]) for begin in range(0, full, BLOCK)]
        if full < len(values):
            blocks.append((full, values[full:]))
        selected = [values.new_zeros(0, dtype=torch.int64)]
        for begin, block in blocks:
            rows = block.view(-1, min(CHUNK, len(block)))
            selected.append(tensors.largest_in_rows(rows, density_count(density, rows.shape[1])).add_(begin))
        return torch.cat(selected)
