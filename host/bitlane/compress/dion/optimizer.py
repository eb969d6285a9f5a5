"""Dion: orthonormal updates of low rank, for which ranks exchange thin factors instead of gradients.

Ahn et al., 2025 (arXiv 2504.05295). `factors.py` has the equations. A step is one of `StepRunner`, as those of
`DDPCompression`: handshake, average, statistics and saved state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from bitlane.errors import BitlaneError, DataError

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.transport import TorchTransport, Transport
from ..compressor import SavedState
from ..compressors.lowrank import matrix_shape
from ..ddp.checks import check_equal
from ..ddp.settings import check_settings
from ..ddp.states import check_identity, identity
from ..ddp.stats import Stats
from ..ddp.steps import StepRules, StepRunner
from ..ddp.warm_up import warm_up
from ..detached import Detached
from ..local.same_start import check_same_settings, digest, make_same, shapes_of
from ..local.settings import RoundSettings
from .factors import DionFactors
from .parameters import check_rates, checked_groups, gradient_of, joined, parameters_of

_FIELDS = {"state", "param_groups", "exchange", "other_optimizer", "weights"}


class Dion(torch.optim.Optimizer):
    """Update matrices by orthonormal matrices of low rank, of the momentum of all ranks.

    Each rank computes the gradients of its own batch, without `DistributedDataParallel` or in its `no_sync()`. `step()`
    exchanges r (m + n) values for each matrix [m, n], averages the gradients of all other parameters, and updates all
    parameters identically on all ranks; a matrix X:

        X = (1 - lr weight_decay) X - lr sqrt(m / n) P V^T

    P [m, r] is orthonormal, and columns of V [n, r] have length 1. Each rank keeps its own momentum, of the gradients
    that it has computed. A parameter with more dimensions is a matrix [shape[0], product of the rest].

    The constructor sends the parameters of rank 0 to the ranks that have others. Make the optimizer, step it and close
    it at the same points on all ranks, with the same learning rates. A parameter without a gradient has the gradient 0.
    Buffers are not averaged.

    Parameters
    ----------
    params : iterable
        The matrices, or groups of them as in torch, with their own `lr` and `weight_decay`. The paper leaves out
        embeddings and the output layer.
    lr : float, default: 0.01
        Learning rate.
    rank_fraction : float, default: 0.25
        r as a share of the shorter side of each matrix, above 0 and at most 1; r is at least 1. If r exceeds
        m n / (m + n), the factors have more values than the matrix.
    momentum : float, default: 0.95
        The share mu of what a step applies that stays in the momentum, 0 or more and less than 1.
    weight_decay : float, default: 0.01
        Decoupled, as in AdamW.
    bits : int or None, default: None
        Bits of a value that is sent, 2 to 8, as logarithmic levels (`LQSGD`); None for float32. The momentum and the
        residuals of the other gradients keep what rounding lost.
    other_optimizer : torch.optim.Optimizer or None, default: None
        The optimizer of all other parameters. `step()` averages their gradients in place, and then steps it: do not
        step it yourself. `zero_grad()` and `state_dict()` include it; schedules of the learning rate are separate.
    **settings
        Fields of `RoundSettings`, as in `DiLoCo`: nonfinite, process_group, debug, timeout and link_model. With
        `nonfinite="skip"` a step with a gradient that is not finite changes nothing; "pass" is refused. `debug=True`
        checks after each step that all ranks have the same parameters.

    Attributes
    ----------
    compressor : DionFactors
        The settings of the exchange.
    transport : Transport
        Moves bytes between ranks; its `sent` counts all of them.
    stats : Stats
        Bytes and times of this rank; without the start.

    Raises
    ------
    DataError
        A wrong setting or parameter; ranks with different settings or shapes.
    BitlaneError
        If there is no process group.
    RankFailed
        If another rank failed, ended or did not answer in time.

    Examples
    --------
    >>> from bitlane.compress import Dion
    >>> matrices = [each for each in model.blocks.parameters() if each.dim() == 2]  # doctest: +SKIP
    >>> adamw = torch.optim.AdamW(others)  # doctest: +SKIP
    >>> with Dion(matrices, lr=0.01, bits=8, other_optimizer=adamw) as optimizer:  # doctest: +SKIP
    ...     for x, y in batches:
    ...         optimizer.zero_grad()
    ...         loss(model(x), y).backward()
    ...         optimizer.step()
    """

    _step_supports_amp_scaling = True  # GradScaler calls `step` then on all ranks, which refuses it

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        rank_fraction: float = 0.25,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        bits: int | None = None,
        other_optimizer: torch.optim.Optimizer | None = None,
        **settings: Any,
    ):
        self._runner: StepRunner | None = None
        rounds = RoundSettings(**settings)
        if rounds.nonfinite == "pass":
            raise DataError('nonfinite="pass" has no orthonormal update: use "raise" or "skip"')
        if other_optimizer is not None and not isinstance(other_optimizer, torch.optim.Optimizer):
            raise DataError(f"other_optimizer={other_optimizer!r}: it must be a torch.optim.Optimizer")
        super().__init__(checked_groups(params), {"lr": lr, "weight_decay": weight_decay})
        check_rates(self)
        matrices = parameters_of(self)
        self._parameters = joined(matrices, parameters_of(other_optimizer))
        self.other_optimizer, self._debug = other_optimizer, rounds.debug
        self._steps_others = False  # at this moment
        self.compressor = DionFactors(len(matrices), rank_fraction, momentum, bits)
        link_model = rounds.link_model or AlphaBetaModel()
        check_settings(self.compressor, rounds.link_model, rounds.timeout, None)
        self.stats = Stats()
        self._saved: SavedState | None = None  # until the first step after a restart
        self._closed = False
        self._guard: RemovableHandle | None = None
        self.transport: Transport = TorchTransport(rounds.process_group, rounds.timeout)
        try:
            warm_up(self.compressor, self.transport.size)
            tensors = self._named()
            compared = [repr(each) for each in (self, self.compressor, other_optimizer)]
            check_same_settings(self.transport, "\n".join([*compared, *shapes_of(tensors)]))
            make_same(self.transport, tensors)
            rules = StepRules(rounds.nonfinite, debug=False)
            layout, device = self._parameters.layout, self._parameters.device
            exchange = self.compressor, self.transport, link_model
            self._runner = StepRunner(*exchange, layout, device, self.stats, rules)
            if other_optimizer is not None:
                self._guard = other_optimizer.register_step_pre_hook(self._check_others)
        except BaseException:
            self.transport.abort()
            raise

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group while the optimizer is made; raise DataError later, because the exchange is fixed then."""
        if self._runner is not None:
            raise DataError("Dion takes no parameters after it was made: create a new one")
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Exchange the factors and the other gradients, and update all parameters. All ranks call it equally often.

        Parameters
        ----------
        closure : callable or None, default: None
            Computes the gradients and returns the loss, as in torch.

        Returns
        -------
        object
            What `closure` returned; None without one.

        Raises
        ------
        DataError
            On all ranks, if a gradient is not finite and `nonfinite` is "raise". With a `GradScaler`, which would skip
            steps on one rank only.
        RankFailed
            If another rank failed, ended or did not answer in time.
        BitlaneError
            After `close()`.
        """
        if self._closed or self._runner is None:
            raise BitlaneError("step() after close(): create a new Dion and load the state of this one")
        if hasattr(self, "found_inf"):
            raise DataError("Dion does not work with a GradScaler: use bfloat16, which needs none")
        loss = closure() if closure is not None else None
        skipped = self.stats.skipped
        average = self._runner.average(lambda: gradient_of(self._parameters))
        self._saved = None
        if self.stats.skipped == skipped:
            with self._runner.abort_on_error(), torch.no_grad():
                self._apply(average)
        if self._debug:
            check_equal(self._runner.link, self._parameters.vector(), self._runner.step - 1, "vector of parameters")
        return loss

    def _apply(self, average: Tensor) -> None:
        """Update all parameters, for what `DionReducer.average` returns, float32 [values]."""
        views = iter(zip(self._parameters.layout, self._parameters.views(average), strict=True))
        for group in self.param_groups:
            rate, decay = float(group["lr"]), float(group["weight_decay"])
            for parameter in group["params"]:
                span, update = next(views)
                rows, columns = matrix_shape(span)
                parameter.mul_(1 - rate * decay)
                parameter.add_(update, alpha=-rate * sqrt(rows / columns))
        for parameter, (_, gradient) in zip(parameters_of(self.other_optimizer), views, strict=True):
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            parameter.grad.copy_(gradient)
        if self.other_optimizer is not None:
            self._steps_others = True
            self.other_optimizer.step()
            self._steps_others = False

    def _check_others(self, *_: object) -> None:
        if not self._steps_others:
            raise DataError("step() of Dion also steps other_optimizer: do not call its own step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters, also those of `other_optimizer`."""
        super().zero_grad(set_to_none)
        if self.other_optimizer is not None:
            self.other_optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank: tensors, numbers and text, which `torch.load(weights_only=True)` reads.

        Each rank saves its own, because each has its own momentum; the parameters are equal on all.
        """
        assert self._runner is not None
        begun = self.stats.steps > 0 and self._saved is None
        return {
            **super().state_dict(),
            "exchange": self._runner.state_dict() if begun else self._saved,
            "other_optimizer": None if self.other_optimizer is None else self.other_optimizer.state_dict(),
            "weights": digest(self._named()),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned on this rank. Training continues bit for bit.

        Load the state of the model first: the constructor replaces parameters, so make the optimizer before that.

        Parameters
        ----------
        state_dict : mapping
            The state.

        Raises
        ------
        DataError
            If the state is from other settings, another rank or number of ranks, or if the parameters have other
            values than when it was saved. Nothing has changed then.
        ValueError
            If the groups of parameters differ; from torch.
        """
        assert self._runner is not None
        self._check(state_dict)
        super().load_state_dict({name: state_dict[name] for name in ("state", "param_groups")})
        if self.other_optimizer is not None:
            self.other_optimizer.load_state_dict(state_dict["other_optimizer"])
        self._saved = state_dict["exchange"]
        if self._saved is not None:
            self._runner.load_state_dict(self._saved)

    def _check(self, state: Mapping[str, Any]) -> None:
        """Raise DataError unless `load_state_dict` can restore the state."""
        if not isinstance(state, Mapping) or not set(state) >= _FIELDS:
            raise DataError(f"not a state of Dion: it must have {', '.join(sorted(_FIELDS))}")
        if state["exchange"] is not None:
            own = identity(self.compressor, self.transport.rank, self.transport.size, self._parameters.layout)
            check_identity(state["exchange"], own, owner="Dion", converter="redistribute_dion")
        elif self.stats.steps:
            raise DataError("the saved state is of a Dion before its first step: create a new Dion to load it")
        if (state["other_optimizer"] is None) != (self.other_optimizer is None):
            has = "no" if state["other_optimizer"] is None else "an"
            raise DataError(f"the saved state has {has} other_optimizer: create the Dion with the same arguments")
        if state["weights"] != digest(self._named()):
            raise DataError(
                "the parameters differ from the saved state: create the Dion, load the state of the model, then that "
                "of the Dion"
            )

    def _named(self) -> dict[str, Tensor]:
        return {f"parameter {number}": each for number, each in enumerate(self._parameters.parameters)}

    def close(self) -> None:
        """Free the connections. A second call does nothing. Call it after the same step on all ranks."""
        self._closed = True
        if self._guard is not None:
            self._guard.remove()
        self.transport.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Detached.of(self)

    def __enter__(self) -> Dion:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # the others do not have to wait for this rank
            with suppress(Exception):
                self.transport.abort()
        self.close()
