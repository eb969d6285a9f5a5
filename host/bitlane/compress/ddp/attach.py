"""`attach`: a compression for a model in DDP, and what hangs on the model then."""

# DDP compares the hook's annotations with types, so they cannot be text: no `from __future__ import annotations`.
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bitlane.errors import DataError
from bitlane.support.user_warnings import warn_user

from ..compressor import Compressor
from ..registry import parse_compressor
from .buckets import TYPE_NAMES, TYPES
from .hook import DDPCompression


class Attachment:
    """What `attach` registers on a model: it gives the forward passes and the buckets to the compression.

    A copy or a pickle of the model has one without a compression. DDP averages the gradients of the copy itself, in
    full precision; its first training step warns.

    Parameters
    ----------
    compression : DDPCompression or None, default: None
    """

    def __init__(self, compression: DDPCompression | None = None):
        self.compression = compression

    def __reduce__(self) -> tuple[type["Attachment"], tuple[()]]:
        return Attachment, ()

    def before_forward(self, ddp: DistributedDataParallel, *_: object) -> None:
        """Begin the time of a step; DDP calls it before each forward pass."""
        if self.compression is not None:
            self.compression.start_clock()
        elif ddp.training and torch.is_grad_enabled() and not is_attached(ddp):
            warn_user(
                "this model is a copy of one with compressed gradients, and its own are averaged uncompressed: attach "
                "a compressor to the copy"
            )


def compressed_average(attachment: Attachment, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """The hook that `attach` registers; see `DDPCompression.hook`."""
    if attachment.compression is None:
        raise DataError("this model is a copy of one with compressed gradients: attach a compressor to the copy")
    return attachment.compression.hook(bucket)


def is_attached(ddp: DistributedDataParallel) -> bool:
    """Return whether `attach` has been called for this model, and not only for one that it is a copy of."""
    states = [state for _, state in ddp._comm_hooks if isinstance(state, Attachment)]
    return any(state.compression is not None for state in states)


def attach(ddp: DistributedDataParallel, compressor: Compressor | str, **settings: Any) -> DDPCompression:
    """Compress the gradients of a model in DDP, over its own process group.

    Call it at the same point on every rank, before the first step. DDP takes one hook: wrap the model again to attach
    another compressor.

    Parameters
    ----------
    ddp : DistributedDataParallel
        The model. All of its parameters are known before the first step, so that DDP may leave out any bucket of any
        step, and a static graph needs no exception.
    compressor : Compressor or str
        The settings, equal on all ranks; or text as `parse_compressor` takes it, such as "auto" or "qsgd:bits=4".
    **settings
        Other arguments of `DDPCompression`.

    Returns
    -------
    DDPCompression
        Close it, or use it as a context manager, when the training is over.

    Raises
    ------
    DataError
        The model is not in DDP, or has parameters of a type that is not supported, or another hook; a wrong setting.
        Nothing is connected then.

    Examples
    --------
    >>> from bitlane.compress import attach
    >>> with attach(ddp, "auto") as compression:  # doctest: +SKIP
    ...     train(ddp)
    ...     print(compression.choice)
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise DataError(f"attach needs a model in DistributedDataParallel; got {type(ddp).__name__}")
    ignored = getattr(ddp, "parameters_to_ignore", ())
    parameters = ddp.module.named_parameters()
    named = {name: each for name, each in parameters if each.requires_grad and name not in ignored}
    for name, each in named.items():
        if each.dtype not in TYPES:
            raise DataError(f"{name} has the type {each.dtype}: its gradient must be {TYPE_NAMES}")
    for hook, state in ddp._comm_hooks:
        if not isinstance(state, Attachment) or state.compression is not None:
            raise DataError(f"the model has the hook {hook.__qualname__}, and DDP takes one: wrap the model again")
    if isinstance(compressor, str):
        compressor = parse_compressor(compressor)
    with ExitStack() as on_error:
        compression = DDPCompression(compressor, process_group=ddp.process_group, **settings)
        on_error.callback(compression.transport.close)
        compression.set_parameters(named)
        attachment = Attachment(compression)
        ddp.register_comm_hook(attachment, compressed_average)
        ddp.register_forward_pre_hook(attachment.before_forward)
        on_error.pop_all()
    return compression
