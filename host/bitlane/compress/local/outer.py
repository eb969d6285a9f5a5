"""The global copy of a fragment: its pseudo-gradient, the average of the ranks, and the outer optimizer.

The pseudo-gradient is the global copy minus the parameters of a rank (Douillard et al., 2023, arXiv 2311.08105,
algorithm 1). It is the sum of the rank's inner steps, with the sign of a gradient. All ranks apply the same average to
the same copy, so that the copies have identical bytes without being sent.

With few bits a round sends only a part of it, and the rest, the residual, waits for later rounds. With `step_ahead` a
rank trains on from the global copy minus a share of its residual, instead of forgetting for some rounds what it has
learned (Xu, Huo and Huang, 2021, arXiv 2008.05823, "step ahead", there for gradients of single steps).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bitlane.errors import DataError

from ..compressor import Compressor, SavedState
from ..ddp.states import check_identity, identity
from ..ddp.steps import StepRunner
from .fragments import Fragment
from .schedule import RoundSchedule

OuterOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
_FIELDS = {"global", "optimizer", "average", "start"}


def nesterov(parameters: list[Tensor]) -> torch.optim.Optimizer:
    """Return the outer optimizer of DiLoCo: SGD with Nesterov momentum 0.9 and the learning rate 0.7."""
    return torch.optim.SGD(parameters, lr=0.7, momentum=0.9, nesterov=True)


class GlobalFragment:
    """The global copy of a fragment on one rank. It begins as a copy of the parameters.

    Parameters
    ----------
    fragment : Fragment
        The parameters of this rank.
    outer_optimizer : callable
        Takes the tensors of the copy, and returns their optimizer.
    runner : callable
        Returns a new `StepRunner` for the fragment.

    Attributes
    ----------
    vector : Tensor, fragment.dtype [fragment.count]
        The global copy.
    optimizer : torch.optim.Optimizer
        The outer optimizer.

    Raises
    ------
    DataError
        If `outer_optimizer` returns something else.
    """

    def __init__(self, fragment: Fragment, outer_optimizer: OuterOptimizer, runner: Callable[[], StepRunner]):
        self.fragment, self.vector = fragment, fragment.vector()
        self._outer_optimizer, self._new_runner = outer_optimizer, runner
        # They share the memory of the vector.
        self._parameters: list[Tensor] = [nn.Parameter(view) for view in fragment.views(self.vector)]
        self.optimizer = self._new_optimizer()
        self._runner = runner()
        self._start: Tensor | None = None  # what the parameters were set to, if they are ahead of the copy
        self._saved: SavedState | None = None  # of the runner, until its first average after a restart
        self._averaged = False

    def pseudo_gradient(self) -> Tensor:
        """Return what the parameters were set to minus what they are now, float32 [fragment.count].

        The first is rounded to the types of the parameters. Otherwise rounding would look like training, and outer
        steps smaller than the resolution of a parameter would be lost.
        """
        start = self.vector if self._start is None else self._start
        return self.fragment.rounded(start).sub_(self.fragment.vector()).float()

    def average(self, gradient: Callable[[], Tensor]) -> Tensor:
        """Return the average over ranks, with identical bytes on all; errors as in `StepRunner.average`."""
        average = self._runner.average(gradient)
        self._averaged = True
        return average

    def apply(self, average: Tensor, schedule: RoundSchedule, replace_nonfinite: bool) -> None:
        """Step the global copy with an average pseudo-gradient, and set the parameters as the schedule says.

        Parameters
        ----------
        average : Tensor, float32 [fragment.count]
        schedule : RoundSchedule
            Its `blend` and `step_ahead` count.
        replace_nonfinite : bool
            When parameters are blended, take the global value where that of this rank is NaN or infinite.
        """
        self.outer_step(average)
        if schedule.blend:
            self._mix(schedule.blend, replace_nonfinite)
        else:
            self.set_parameters(schedule.step_ahead)

    def outer_step(self, average: Tensor) -> None:
        """Let the outer optimizer step the global copy with an average pseudo-gradient, float32 [fragment.count]."""
        for parameter, gradient in zip(self._parameters, self.fragment.views(average.to(self.vector)), strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    @property
    def keeps_residual(self) -> bool:
        """Whether the compressor keeps what it has not sent."""
        return self._runner.residual() is not None

    def set_parameters(self, ahead: float = 0.0) -> None:
        """Set the parameters to the global copy minus `ahead` times the residual; 0 needs no residual."""
        self._start = None
        if ahead:
            residual = self._runner.residual()
            assert residual is not None, "step_ahead is refused without a residual"
            self._start = self.vector - ahead * residual[: self.fragment.count].to(self.vector)
        self.fragment.assign(self.vector if self._start is None else self._start)

    def _mix(self, blend: float, replace_nonfinite: bool) -> None:
        """Set the parameters to blend * parameters + (1 - blend) * global copy."""
        own = self.fragment.vector()
        mixed = own * blend + self.vector * (1 - blend)
        self.fragment.assign(torch.where(torch.isfinite(own), mixed, self.vector) if replace_nonfinite else mixed)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state.

        "average" is the state of the `StepRunner`, None before the first round. "start" is what the parameters were set
        to, None for the global copy.
        """
        optimizer = copied(self.optimizer.state_dict())
        average, start = self.average_state(), copied(self._start)
        return {"global": self.vector.clone(), "optimizer": optimizer, "average": average, "start": start}

    def average_state(self) -> SavedState | None:
        """Return a copy of the state of the `StepRunner`; None before the first round."""
        return self._runner.state_dict() if self._averaged else self._saved

    def reconnect(self, runner: Callable[[], StepRunner], average: SavedState | None) -> None:
        """Average with other runners from now on, from a state of `average_state`; None for a new one."""
        self._new_runner, self._runner = runner, runner()
        self._saved, self._averaged = average, False
        if average is not None:
            self._runner.load_state_dict(average)

    def check(self, state: object, compressor: Compressor, rank: int, ranks: int) -> None:
        """Raise DataError unless `state` is one of `state_dict` of this fragment, compressor and rank."""
        if not isinstance(state, Mapping) or set(state) != _FIELDS:
            raise DataError(f"the saved state of a fragment must have {', '.join(sorted(_FIELDS))}")
        check_vector("the global copy", state["global"], self.vector)
        if state["start"] is not None:
            check_vector("the start", state["start"], self.vector)
        if state["average"] is not None:
            check_identity(state["average"], identity(compressor, rank, ranks, self.fragment.layout))
        trial = self._new_optimizer()
        try:
            trial.load_state_dict(copied(state["optimizer"]))
        except Exception as error:
            raise DataError(f"the saved state of the outer optimizer does not fit {trial!r}: {error}") from error

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `check` has accepted."""
        self.vector.copy_(state["global"])
        self._start = None if state["start"] is None else state["start"].to(self.vector, copy=True)
        self.optimizer.load_state_dict(copied(state["optimizer"]))
        self.reconnect(self._new_runner, state["average"])

    def _new_optimizer(self) -> torch.optim.Optimizer:
        optimizer = self._outer_optimizer(self._parameters)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise DataError(
                f"outer_optimizer must return a torch.optim.Optimizer, such as lambda tensors: SGD(tensors, lr=0.7); "
                f"got {type(optimizer).__name__}"
            )
        return optimizer


def check_step_ahead(schedule: RoundSchedule, fragments: Iterable[GlobalFragment], compressor: Compressor) -> None:
    """Raise DataError if `step_ahead` is not 0 and the compressor keeps no residual."""
    if schedule.step_ahead and not all(each.keeps_residual for each in fragments):
        raise DataError(
            f"step_ahead={schedule.step_ahead:g} is a share of the residual, and {compressor!r} has none: use a "
            f"compressor with error feedback, such as EFSign(), or step_ahead=0"
        )


def check_vector(name: str, value: object, like: Tensor) -> None:
    """Raise DataError unless `value` is a tensor of the type and length of another."""
    if not isinstance(value, Tensor) or value.dtype != like.dtype or value.shape != like.shape:
        actual = f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise DataError(f"{name} in the saved state must be {like.dtype} {list(like.shape)}; got {actual}")


def copied(state: object) -> Any:
    """Return a copy of nested dictionaries, lists and tensors: an optimizer returns its own tensors."""
    if isinstance(state, Mapping):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(copied(value) for value in state)
    return state.clone() if isinstance(state, Tensor) else state
