"""The parameters of a `Dion`: the matrices that it updates, and the others, whose gradients it averages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.support.scalars import as_number

from ..ddp.buckets import TYPE_NAMES, TYPES
from ..ddp.steps import LARGEST
from ..local.fragments import Fragment

GROUP_SETTINGS = ("lr", "weight_decay")


def checked_groups(params: Iterable[Any]) -> list[Any]:
    """Return the parameters or groups as a list; raise DataError if a group has a setting that has no effect."""
    if isinstance(params, Tensor):
        raise DataError("params must be a list of matrices, or of groups; got a single tensor")
    entries = list(params)
    for group in entries:
        unknown = sorted(set(group) - {"params", *GROUP_SETTINGS}) if isinstance(group, Mapping) else ()
        if unknown:
            raise DataError(
                f"a group of Dion has {' and '.join(GROUP_SETTINGS)}; got {', '.join(unknown)}. Other parameters than "
                "matrices belong to other_optimizer"
            )
    return entries


def check_rates(optimizer: torch.optim.Optimizer) -> None:
    """Raise DataError unless the learning rate and the weight decay of each group are 0 or more."""
    for group in optimizer.param_groups:
        for name in GROUP_SETTINGS:
            value = as_number(name, float(group[name]) if isinstance(group[name], Tensor) else group[name])
            if value < 0:
                raise DataError(f"{name} must be 0 or more; got {value:g}")


def parameters_of(optimizer: torch.optim.Optimizer | None) -> list[Tensor]:
    """Return the parameters of an optimizer, in the order of its groups."""
    return [] if optimizer is None else [each for group in optimizer.param_groups for each in group["params"]]


def joined(matrices: Sequence[Tensor], averaged: Sequence[Tensor]) -> Fragment:
    """Return all parameters of a `Dion`, the matrices first.

    Raises
    ------
    DataError
        If a parameter is no matrix, has no gradient or no values, is sharded, has a type that is not supported, occurs
        twice, or is on another device.
    """
    found: set[int] = set()
    of_dion = [(f"parameter {number} of Dion", each) for number, each in enumerate(matrices)]
    of_other = [(f"parameter {number} of other_optimizer", each) for number, each in enumerate(averaged)]
    for name, each in of_dion:
        if each.dim() < 2:
            raise DataError(f"{name} has the shape {list(each.shape)}, which is no matrix: give it to other_optimizer")
    for name, each in [*of_dion, *of_other]:
        if not each.requires_grad:
            raise DataError(f"{name} has requires_grad=False: leave it out")
        if not each.numel():
            raise DataError(f"{name} has the shape {list(each.shape)} and no values: leave it out")
        if hasattr(each, "device_mesh"):
            raise DataError(f"{name} is sharded over ranks, as a DTensor: Dion takes complete parameters")
        if each.dtype not in TYPES:
            raise DataError(f"{name} has the type {each.dtype}: convert it to {TYPE_NAMES}")
        if each.device != matrices[0].device:
            raise DataError(f"{name} is on {each.device}, others are on {matrices[0].device}: use one device")
        if id(each) in found:
            raise DataError(f"{name} occurs twice: a parameter has one optimizer")
        found.add(id(each))
    return Fragment.of([*matrices, *averaged])


def gradient_of(parameters: Fragment) -> Tensor:
    """Return the gradient of this rank, float32 [parameters.count]; 0 for parameters without one.

    Raises
    ------
    DataError
        If a gradient is sparse, or has a finite value above `LARGEST`.
    """
    vector = torch.zeros(parameters.count, device=parameters.device)
    for view, parameter in zip(parameters.views(vector), parameters.parameters, strict=True):
        gradient = parameter.grad
        if gradient is None:
            continue
        if gradient.layout != torch.strided:
            raise DataError("sparse gradients are not supported: create the embedding with sparse=False")
        view.copy_(gradient)
    most = float(torch.linalg.vector_norm(vector, torch.inf))
    if LARGEST < most < torch.inf:
        raise DataError(f"a gradient has the value {most:.3g}; at most {LARGEST:.3g} can be averaged: scale the loss")
    return vector
