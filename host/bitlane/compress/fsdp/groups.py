"""The parameter groups of FSDP2, and the shards of their gradients as vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed.fsdp
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from bitlane.errors import DataError

from ..compressor import Layout, layout_of_shapes, vector_length
from ..ddp.buckets import TYPE_NAMES, TYPES

if TYPE_CHECKING:  # not in every version of torch that the other compressors support
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy


@dataclass(frozen=True)
class LocalShard:
    """The shard of a parameter on this rank.

    Attributes
    ----------
    shape : tuple of int
        Its shape, without padding. With an uneven division it can have 0 rows.
    padded : int
        Number of values that FSDP reduces for it: the first ones are the shard, the others 0.
    """

    shape: tuple[int, ...]
    padded: int


class ParameterGroup:
    """The parameters that FSDP reduces together: those of a call of `fully_shard`.

    Attributes
    ----------
    name : str
        Name of the module in the model; empty for the model itself.
    module : FSDPModule
        The module, which takes the hook.
    mesh : DeviceMesh
        The ranks that the parameters are sharded over, of one dimension.
    device : torch.device
        The device of the gradients.
    layout : Layout
        The shards of this rank that have values, in FSDP's order, one after the other.
    """

    def __init__(self, name: str, module: FSDPModule, parameters: Sequence[Any], device: torch.device):
        self.name = name
        self.module = module
        self.device = device
        self.mesh: DeviceMesh = parameters[0].sharded_param.device_mesh
        self._shards = [
            LocalShard(tuple(each.sharded_param.to_local().shape), each.padded_sharded_param_size.numel())
            for each in parameters
        ]
        self.layout: Layout = layout_of_shapes(each.shape for each in self._shards if prod(each.shape))

    @property
    def has_values(self) -> bool:
        """Whether this rank has a value of any of the parameters; equal on all replicas."""
        return bool(self.layout)

    def vector(self, output: Tensor, scale: float = 1.0) -> Tensor:
        """Return the gradient of the shards divided by `scale`, float32 [n].

        It is `output` itself, if that has this type and no padding.

        Parameters
        ----------
        output : Tensor, of one of `TYPES` [padded]
            What FSDP has reduced over the shards.
        scale : float, default: 1.0
            The scale of the loss.

        Raises
        ------
        DataError
            If it has another length, because parameters were frozen or unfrozen.
        """
        padded = sum(each.padded for each in self._shards)
        if output.numel() != padded:
            raise DataError(
                f"FSDP reduced {output.numel()} values of {label(self.name)} instead of {padded}: after "
                "freezing or unfreezing parameters, shard the model again and attach again"
            )
        if output.dtype == torch.float32 and padded == vector_length(self.layout):
            vector = output
        else:
            vector = torch.cat([values.float() for values in self._without_padding(output)])
        return vector if scale == 1 else vector.div_(scale)

    def deliver(self, output: Tensor, average: Tensor, scale: float = 1.0) -> None:
        """Copy the average, float32 [n], times `scale` to `output`, in its type; the padding stays."""
        if scale != 1:
            average.mul_(scale)
        if average.data_ptr() != output.data_ptr():
            for values, span in zip(self._without_padding(output), self.layout, strict=True):
                values.copy_(average[span.begin : span.end])

    def _without_padding(self, output: Tensor) -> list[Tensor]:
        """Return the values of each shard that has any."""
        padded = output.split([each.padded for each in self._shards])
        shards = [values[: prod(each.shape)] for values, each in zip(padded, self._shards, strict=True)]
        return [values for values in shards if len(values)]


def label(name: str) -> str:
    """Return how messages call the group of a module with this name."""
    return repr(name) if name else "the outermost module"


def parameter_groups(model: nn.Module) -> list[ParameterGroup]:
    """Return the groups of a sharded model that have parameters to train, in the order of its modules.

    Raises
    ------
    DataError
        If the model is not sharded, or not in a way that gradients can be averaged over replicas; the message says how.
    """
    kind = getattr(torch.distributed.fsdp, "FSDPModule", None)
    if kind is None or not hasattr(kind, "set_reduce_scatter_unused_params"):
        raise DataError(f"attach_fsdp needs the FSDP2 of torch 2.13 or later; this is torch {torch.__version__}")
    if not isinstance(model, kind):
        raise DataError(f"attach_fsdp needs a model sharded by fully_shard; got {type(model).__name__}")
    groups = list(_groups(model, kind))
    if not groups:
        raise DataError("no sharded parameter of the model has requires_grad=True: there is nothing to average")
    for each in groups:
        if each.mesh != groups[0].mesh:
            raise DataError(
                f"{label(each.name)} is sharded over ranks {each.mesh.mesh.tolist()}, and {label(groups[0].name)} over "
                "others: attach_fsdp needs one mesh for the model"
            )
    return groups


def _groups(model: nn.Module, kind: type[FSDPModule]) -> Iterator[ParameterGroup]:
    seen = set()
    for name, module in model.named_modules():
        if not isinstance(module, kind) or (state := module._get_fsdp_state()) in seen:
            continue
        seen.add(state)
        if len(state._fsdp_param_groups) > 1:
            raise DataError(
                f"the parameters of {label(name)} are on different meshes (shard_placement_fn): attach_fsdp "
                "needs one mesh"
            )
        for group in state._fsdp_param_groups:
            parameters = [each for each in group.fsdp_params if each.sharded_param.requires_grad]
            for each in parameters:
                _check_parameter(name, each.sharded_param, group.mp_policy)
            if parameters:
                yield ParameterGroup(name, module, parameters, group.device)


def _check_parameter(name: str, parameter: Any, policy: MixedPrecisionPolicy) -> None:
    """Raise DataError if the gradients of a sharded parameter cannot be averaged over replicas."""
    where = f"a parameter of {label(name)} of shape {tuple(parameter.shape)}"
    if parameter.placements[0].is_replicate():
        raise DataError(
            f"{where} is sharded with a mesh of replicas and shards, and FSDP averages it over the replicas itself: "
            'shard with mesh["shard"] alone, and attach with mesh["replicate"]'
        )
    if parameter.device_mesh.ndim > 1:
        raise DataError(
            f"{where} is sharded over {parameter.device_mesh.ndim} dimensions: tensor parallelism with "
            "attach_fsdp is not supported"
        )
    dtype = policy.reduce_dtype or policy.param_dtype or parameter.dtype
    if dtype not in TYPES:
        raise DataError(f"{where} is reduced as {dtype}: use {TYPE_NAMES} (reduce_dtype of its policy)")
