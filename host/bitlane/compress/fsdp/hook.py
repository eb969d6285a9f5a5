"""Compression over replicas of a model that FSDP2 shards: an all-reduce hook of each parameter group."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed.device_mesh import DeviceMesh

from bitlane.errors import DataError

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.transport import TorchTransport, Transport
from ..compressor import Compressor, SavedState, with_own_seed
from ..ddp.settings import check_settings, step_rules
from ..ddp.states import check_identity
from ..ddp.stats import Stats
from ..ddp.steps import NonFinite, StepRules, StepRunner
from ..ddp.warm_up import warm_up
from ..detached import Detached
from .groups import ParameterGroup, label, parameter_groups
from .peers import ShardPeers, check_replicas

FORMAT = 1
SAME_MODULES = " (all replicas must use the same modules in a step)"  # in the message if they average different groups


@dataclass(frozen=True)
class AverageSettings:
    """How the replicas exchange data; described in `FSDPCompression`."""

    nonfinite: NonFinite | None = None
    debug: bool = False
    start: int = 0
    timeout: float = 600.0
    link_model: AlphaBetaModel | None = None
    grad_scaler: GradScaler | None = None

    @property
    def rules(self) -> StepRules:
        """The rules of each step; raise DataError if one has another value."""
        return step_rules(self.nonfinite, self.debug, self.start, self.grad_scaler)

    def check(self, compressor: Compressor) -> None:
        """Raise DataError if a setting has another type or value, or the compressor cannot be used with groups."""
        check_settings(compressor, self.link_model, self.timeout, self.grad_scaler)
        if getattr(compressor.policy, "observes_steps", False):
            raise DataError(
                f"{type(compressor.policy).__name__}(...) needs the time of a step, and FSDP averages a step in "
                "groups: use a number of bits, or Adaptive()"
            )


class FSDPCompression:
    """The gradients of a sharded model, averaged over its replicas with a compressor; `attach_fsdp` makes it.

    FSDP reduces the gradients of a parameter group over the shards, in full precision. Then each rank averages its
    shards with the ranks that hold the same shards of the other replicas: one step of the compressor for each group, in
    the order of the backward pass. The vector of a group has the shards of its parameters, without padding. A matrix is
    seen as the rows of its shard. Groups have separate residuals and separate random words.

    Gradients are averaged in float32 and returned in FSDP's reduce type; the error of rounding to that type is not fed
    back. A parameter without a gradient has the gradient 0. All replicas use the same modules in a step.

    Errors are raised at the end of the backward pass, on all ranks of all replicas, and training can continue. A step
    is all or nothing for each group: groups before the error were averaged, and their residuals have changed.

    Parameters
    ----------
    model : FSDPModule
        A model that `fully_shard` has sharded over a mesh of one dimension.
    compressor : Compressor
        The settings, equal on all ranks. MQGrad needs losses and is refused.
    replicas : DeviceMesh
        The ranks with the same shards as this one, of one dimension.
    **settings
        - nonfinite : {"raise", "skip", "pass"}, optional; what to do if the gradient of a group has NaN or infinite
          values. "raise" raises DataError on the replicas of the shard, and RankFailed on all other ranks. "skip" sets
          the average of these shards to zero. "pass" averages them uncompressed. The default is "raise", or "pass" with
          a `grad_scaler`, which then skips the step on all ranks.
        - debug : bool, default: False; check in every step that all replicas got identical bytes and that gradients
          and residuals are conserved.
        - start : int, default: 0; number of first steps that are averaged uncompressed.
        - timeout : float, default: 600; seconds that a rank waits for another.
        - link_model : AlphaBetaModel or None, default: None; the cost model that chooses the collective.
        - grad_scaler : torch.amp.GradScaler, optional; the scaler of the loss in mixed precision, as with
          `DDPCompression`.

    Raises
    ------
    DataError
        As `attach_fsdp`.
    """

    def __init__(self, model: nn.Module, compressor: Compressor, replicas: DeviceMesh, **settings: Any):
        chosen = AverageSettings(**settings)
        chosen.check(compressor)
        rules, link_model = chosen.rules, chosen.link_model or AlphaBetaModel()
        groups = parameter_groups(model)
        check_replicas(replicas, groups[0].mesh)
        self.compressor = compressor
        with ExitStack() as on_error:
            self.transport: Transport = TorchTransport(replicas.get_group(), chosen.timeout)
            on_error.callback(self.transport.close)
            self._peers = ShardPeers(groups[0].mesh, chosen.timeout)
            on_error.callback(self._peers.close)
            warm_up(compressor, self.transport.size)
            self._runners: dict[str, StepRunner] = {}
            for index, group in enumerate(groups):
                own = with_own_seed(compressor, index)
                runner = StepRunner(own, self.transport, link_model, group.layout, group.device, Stats(), rules)
                runner.link.settings = f"a gradient of {label(group.name)}{SAME_MODULES}\n{runner.link.settings}"
                self._runners[group.name] = runner
            on_error.pop_all()
        self._grad_scaler = chosen.grad_scaler
        self._saved: dict[str, Any] = {}  # states of groups that have made no step since
        self._errors: dict[int, BaseException | None] = {}  # of each backward pass that has not ended
        for group in groups:
            group.module.set_all_reduce_hook(partial(self._reduce, group))
            group.module.set_reduce_scatter_unused_params(True, recurse=False)

    @property
    def stats(self) -> Stats:
        """Bytes and times of this rank, summed over groups: in the last step of each, and in all steps.

        `skipped` and `uncompressed` count averages of groups.
        """
        return _summed([each.stats for each in self._runners.values() if each.stats.steps])

    def close(self) -> None:
        """Free the connections and threads; the state stays. A step after it raises. A second call does nothing."""
        self.transport.close()
        self._peers.close()

    def __enter__(self) -> FSDPCompression:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Detached.of(self)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank, which the next step depends on: tensors, numbers and text.

        Every rank must save its state.

        Raises
        ------
        DataError
            Before the first step.
        """
        groups = dict(self._saved)
        groups.update((name, each.state_dict()) for name, each in self._runners.items() if each.stats.steps)
        if not groups:
            raise DataError("there is no state before the first step")
        return {**self._identity(), "groups": groups}

    def load_state_dict(self, state: SavedState) -> None:
        """Restore a state that `state_dict` returned on this rank, before the first step or later.

        Raises
        ------
        DataError
            If the state is from another compressor, rank, mesh or model.
        """
        check_identity(state, self._identity(), ("groups",), "FSDPCompression")
        odd = sorted(set(state["groups"]) - set(self._runners))
        if odd:
            raise DataError(f"the saved state has a group of {label(odd[0])}, which the model does not have")
        self._saved = dict(state["groups"])
        for name, saved in self._saved.items():
            self._runners[name].load_state_dict(saved)

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "compressor": repr(self.compressor),
            "replica": f"{self.transport.rank} of {self.transport.size}",
            "shard": f"{self._peers.rank} of {self._peers.size}",
        }

    def _reduce(self, group: ParameterGroup, output: Tensor) -> None:
        """Average what FSDP has reduced over shards, in place. FSDP calls it in the backward pass, on its stream."""
        current = torch._C._current_graph_task_id()
        if current not in self._errors:
            self._errors[current] = None
            torch.autograd.Variable._execution_engine.queue_callback(partial(self._end_backward, current))
        if self._errors[current] is not None or not group.has_values:
            return
        if output.is_cuda:
            output.record_stream(torch.cuda.current_stream(output.device))  # it was allocated on another stream
        scale = 1.0 if self._grad_scaler is None else self._grad_scaler.get_scale()
        gradient, deliver = partial(group.vector, output, scale), partial(group.deliver, output, scale=scale)
        try:
            self._runners[group.name].average(gradient, deliver=deliver)
        except BaseException as error:
            self._errors[current] = error
            return
        self._saved.pop(group.name, None)

    def _end_backward(self, current: int) -> None:
        """Raise the error of a backward pass on all ranks, after FSDP has finished the pass."""
        self._peers.raise_on_all(self._errors.pop(current))


def _summed(groups: Sequence[Stats]) -> Stats:
    """Return the sums over groups that made a step; `steps` is the largest of theirs."""
    result = Stats()
    for each in groups:
        result.add(each)
        result.total.add(each.total)
        result.steps = max(result.steps, each.steps)
        result.skipped += each.skipped
        result.uncompressed += each.uncompressed
    return result


def attach_fsdp(model: nn.Module, compressor: Compressor, replicas: DeviceMesh, **settings: Any) -> FSDPCompression:
    """Compress the gradients of a model in FSDP2 between its replicas, for example between nodes.

    Call it at the same point on every rank, before the first step. All replicas begin with the same parameters: neither
    FSDP nor this function sends them.

    Parameters
    ----------
    model : FSDPModule
        The outermost module that `fully_shard` has sharded, over a mesh of one dimension.
    compressor : Compressor
        The settings, equal on all ranks.
    replicas : DeviceMesh
        The ranks with the same shards as this one, of one dimension.
    **settings
        Other settings of `FSDPCompression`.

    Returns
    -------
    FSDPCompression
        Close it, or use it as a context manager, when the training is over.

    Raises
    ------
    DataError
        The model is not sharded, or FSDP averages over replicas itself; `replicas` has two ranks of a replica; a
        parameter of a type that is not supported; a wrong setting.

    Examples
    --------
    >>> from bitlane.compress import QSGD, attach_fsdp
    >>> mesh = init_device_mesh("cuda", (2, 8), mesh_dim_names=("replicate", "shard"))  # doctest: +SKIP
    >>> for layer in model.layers:  # doctest: +SKIP
    ...     fully_shard(layer, mesh=mesh["shard"])
    >>> fully_shard(model, mesh=mesh["shard"])  # doctest: +SKIP
    >>> compression = attach_fsdp(model, QSGD(bits=4, error_feedback=True), mesh["replicate"])  # doctest: +SKIP
    """
    return FSDPCompression(model, compressor, replicas, **settings)
