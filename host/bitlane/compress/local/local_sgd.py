"""Local SGD: ranks train by themselves, and average their parameters every N steps.

McMahan et al., 2017 (arXiv 1602.05629, federated averaging) and Stich, 2019 (arXiv 1805.09767). It is DiLoCo with an
outer optimizer that sets the global parameters to the average of those of the ranks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..compressor import Compressor
from .diloco import FOUR_BITS, DiLoCo


class LocalSGD(DiLoCo):
    """Average the parameters of all ranks every `every` steps of their optimizers.

    The average of the pseudo-gradients is compressed, with error feedback of the compressor, not that of the
    parameters.

    Parameters
    ----------
    model : torch.nn.Module
        As in `DiLoCo`.
    compressor : Compressor, default: QSGD(bits=4, error_feedback=True)
        As in `DiLoCo`.
    every : int, default: 100
        Steps between two averages.
    **settings
        Other arguments of `DiLoCo`, except `outer_optimizer`; errors as there.

    Examples
    --------
    >>> from bitlane.compress.local.local_sgd import LocalSGD
    >>> with LocalSGD(model, every=10) as local_sgd:  # doctest: +SKIP
    ...     train(local_sgd)
    """

    def __init__(self, model: nn.Module, compressor: Compressor = FOUR_BITS, every: int = 100, **settings: Any):
        super().__init__(model, take_average, compressor, every, **settings)


def take_average(parameters: list[Tensor]) -> torch.optim.Optimizer:
    """Return an optimizer that subtracts the average of global minus own parameters: the average of the own remains."""
    return torch.optim.SGD(parameters, lr=1.0)
