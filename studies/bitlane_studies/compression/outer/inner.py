"""The inner optimizers: AdamW, Muon for the matrices of the blocks, and SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from bitlane.errors import BitlaneError

from ..local.transformer import ByteTransformer

BETAS, WEIGHT_DECAY = (0.9, 0.95), 0.1
Optimizers = list[torch.optim.Optimizer]


def adamw_of(parameters: Iterable[Tensor], rate: float) -> torch.optim.AdamW:
    """Return AdamW for parameters."""
    return torch.optim.AdamW(parameters, rate, BETAS, weight_decay=WEIGHT_DECAY)


def matrices_and_others(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Return the matrices of the blocks, and all other parameters, such as embeddings."""
    blocks = model.blocks if isinstance(model, ByteTransformer) else model
    matrices: list[Tensor] = [each for each in blocks.parameters() if each.dim() == 2]
    own = {id(each) for each in matrices}
    return matrices, [each for each in model.parameters() if id(each) not in own]


def adamw(model: nn.Module, rate: float) -> Optimizers:
    """Return AdamW for all parameters."""
    return [adamw_of(model.parameters(), rate)]


def muon(model: nn.Module, rate: float) -> Optimizers:
    """Return Muon for the matrices of the blocks, with updates as large as those of AdamW, and AdamW for the rest.

    Raises
    ------
    BitlaneError
        torch has no Muon.
    """
    if not hasattr(torch.optim, "Muon"):
        raise BitlaneError(f"torch {torch.__version__} has no torch.optim.Muon: install torch 2.9 or later")
    matrices, others = matrices_and_others(model)
    return [torch.optim.Muon(matrices, rate, WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"), adamw_of(others, rate)]


def sgd(model: nn.Module, rate: float) -> Optimizers:
    """Return SGD with Nesterov momentum."""
    return [torch.optim.SGD(model.parameters(), rate, 0.9, nesterov=True)]


INNER: dict[str, Callable[[nn.Module, float], Optimizers]] = {"adamw": adamw, "muon": muon, "sgd": sgd}
