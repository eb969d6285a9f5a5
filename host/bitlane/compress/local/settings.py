"""The settings of a `DiLoCo`, and their checks before anything is exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.errors import DataError

from ..collectives.cost_model import AlphaBetaModel
from ..compressor import Compressor
from ..ddp.settings import check_settings
from ..ddp.steps import NonFinite
from .outer import OuterOptimizer


@dataclass(frozen=True)
class RoundSettings:
    """How the ranks of a `DiLoCo` exchange data; described there.

    Raises
    ------
    DataError
        If `nonfinite` has another value.
    """

    nonfinite: NonFinite = "raise"
    process_group: dist.ProcessGroup | None = None
    debug: bool = False
    timeout: float = 600.0
    link_model: AlphaBetaModel | None = None

    def __post_init__(self) -> None:
        if self.nonfinite not in get_args(NonFinite):
            raise DataError(f"nonfinite must be one of {', '.join(get_args(NonFinite))}; got {self.nonfinite!r}")


def check_arguments(
    model: nn.Module, outer_optimizer: OuterOptimizer | None, compressor: Compressor, settings: RoundSettings
) -> None:
    """Raise DataError if an argument has another type, or a compressor cannot be used in rounds of many steps."""
    if isinstance(model, DistributedDataParallel):
        raise DataError(
            "DistributedDataParallel averages every gradient, which DiLoCo avoids: pass the inner module, "
            "ddp.module, and train that"
        )
    if not isinstance(model, nn.Module):
        raise DataError(f"a torch.nn.Module is needed; got {type(model).__name__}")
    if outer_optimizer is not None and not callable(outer_optimizer):
        raise DataError(
            f"outer_optimizer must be a function that takes a list of tensors and returns their optimizer, such as "
            f"lambda tensors: torch.optim.SGD(tensors, lr=0.7); got {type(outer_optimizer).__name__}"
        )
    check_settings(compressor, settings.link_model, settings.timeout, None)
    if getattr(compressor.policy, "observes_steps", False):
        raise DataError(
            f"{type(compressor.policy).__name__}(...) needs the loss or the time of each step, and a round has "
            "many: use a number of bits, or Adaptive()"
        )
