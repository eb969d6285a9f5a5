"""Gradient compression with Hugging Face Accelerate, which saves and loads the state of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.errors import DataError

from .compressor import Compressor
from .ddp.attach import attach
from .ddp.hook import DDPCompression
from .rank_state import state_bytes, state_of_bytes, state_of_rank

if TYPE_CHECKING:
    from accelerate import Accelerator


def attach_accelerate(
    accelerator: Accelerator, ddp: DistributedDataParallel, compressor: Compressor | str, **settings: Any
) -> DDPCompression:
    """Compress the gradients of a model that `accelerator.prepare` has wrapped.

    `accelerator.save_state` writes the state of each rank to its folder, and `accelerator.load_state` restores it;
    with another number of ranks, each new rank has the mean of the residuals, if all see the files.

    Parameters
    ----------
    accelerator : Accelerator
        Its GradScaler, in float16, is given to the compression.
    ddp : DistributedDataParallel
        What `accelerator.prepare` returned for the model.
    compressor : Compressor or str
        As in `attach`.
    **settings
        Other arguments of `DDPCompression`.

    Returns
    -------
    DDPCompression
        Close it, or use it as a context manager, when the training is over.

    Raises
    ------
    DataError
        As `attach`. `accelerator.load_state` raises it for a folder without states of a compression, or with those of
        another one.

    Examples
    --------
    >>> model, optimizer, loader = accelerator.prepare(model, optimizer, loader)  # doctest: +SKIP
    >>> with attach_accelerate(accelerator, model, QSGD(bits=4, error_feedback=True)):  # doctest: +SKIP
    ...     train(model)
    """
    if accelerator.scaler is not None:
        settings = {"grad_scaler": accelerator.scaler, **settings}
    compression = attach(ddp, compressor, **settings)
    rank, ranks = compression.transport.rank, compression.transport.size

    def save(models: Sequence[nn.Module], weights: Sequence[dict[str, Any]], folder: str) -> None:
        _file(folder, rank).write_bytes(state_bytes(compression))

    def load(models: Sequence[nn.Module], folder: str) -> None:
        saved = _saved(folder, rank if _file(folder, rank).exists() else 0)
        if saved is not None:
            states = [saved] * ranks
            if saved["ranks"] != ranks:
                states = [each for r in range(saved["ranks"]) if (each := _saved(folder, r)) is not None]
            compression.load_state_dict(state_of_rank(compression.compressor, states, rank, ranks))

    accelerator.register_save_state_pre_hook(save)
    accelerator.register_load_state_pre_hook(load)
    return compression


def _file(folder: str, rank: int) -> Path:
    return Path(folder) / f"bitlane_compression_{rank}.pt"


def _saved(folder: str, rank: int) -> dict[str, Any] | None:
    """Return the saved state of a rank, None if it had made no step; raise DataError if there is no file."""
    try:
        data = _file(folder, rank).read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            f"{error.filename} does not exist: save with accelerator.save_state after attach_accelerate, on all ranks"
        ) from error
    return state_of_bytes(data) if data else None
