"""DiLoCo: ranks train by themselves, and an outer optimizer applies the average of what they have learned.

Douillard et al., 2023 (arXiv 2311.08105). With several fragments, a delay and few bits per value it is Streaming DiLoCo
(Douillard et al., 2025, arXiv 2501.18512). The rounds are steps of `StepRunner`, as those of `DDPCompression`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from bitlane.errors import BitlaneError, DataError
from bitlane.support.scalars import as_integer

from ..collectives.background import BackgroundAverage, FinishedAverage
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.transport import TorchTransport, Transport
from ..compressor import Compressor, with_own_seed
from ..compressors.dense import QSGD
from ..ddp.states import check_identity
from ..ddp.stats import Stats, ring_bytes
from ..ddp.steps import StepRules, StepRunner
from ..ddp.warm_up import warm_up
from ..detached import Detached
from .fragments import Fragment, split_parameters, trained_parameters
from .outer import GlobalFragment, OuterOptimizer, check_step_ahead, check_vector, nesterov
from .same_start import check_same_settings, digest, make_same, named_tensors, saved_tensors, shapes_of
from .schedule import RoundSchedule
from .settings import RoundSettings, check_arguments
from .stats import LocalStats

FORMAT = 1
FOUR_BITS = QSGD(bits=4, error_feedback=True)


@dataclass(frozen=True)
class Pending:
    """An average that is applied later: of which fragment, and after which inner step."""

    fragment: int
    due: int
    average: BackgroundAverage | FinishedAverage


class DiLoCo:
    """Semi-synchronous training of a module.

    Each rank trains its own copy of the module with its own optimizer, and calls `step()` after each step of that
    optimizer. After every `every` steps the ranks average the difference between the global parameters and their own.
    An outer optimizer applies the average to the global parameters, which then replace those of the ranks.

    The constructor sends the parameters and buffers of rank 0 to the ranks that have others. Make it, step it and
    close it at the same points on all ranks. Buffers, such as the statistics of batch normalization, and the state of
    the inner optimizer are not averaged.

    Parameters
    ----------
    model : torch.nn.Module
        The module, not in DistributedDataParallel. Parameters that are trained have the type float64, float32,
        bfloat16 or float16; tied ones count once. What a rank has learned is averaged in float32.
    outer_optimizer : callable or None, default: None
        Takes a list of tensors, and returns a torch optimizer for them; called for each fragment. None for SGD with
        the learning rate 0.7 and Nesterov momentum 0.9, as in the paper.
    compressor : Compressor, default: QSGD(bits=4, error_feedback=True)
        The settings, equal on all ranks. Bit policies count rounds; MQGrad needs losses and is refused.
    every : int, default: 100
        Inner steps between two rounds of a fragment.
    fragments : int, default: 1
        Number of fragments of the model, with separate rounds at different steps (`RoundSchedule`).
    delay : int, default: 0
        Inner steps that a round may take, less than every // fragments. With a delay the exchange runs in a background
        thread. `step()` waits for it when its average is due.
    blend : float or None, default: None
        Weight of a rank's own parameters when an average is applied: parameters become blend * own + (1 - blend) *
        global. 0 or more and less than 1. None for 0 without a delay, and for 0.5 with one, as in the paper; so the
        steps during the exchange are not lost.
    step_ahead : float, default: 0.0
        Share of what the compressor has not sent yet, 0 to 1, that a rank keeps in its own parameters after a round.
        Without it a rank trains on from the global parameters, and what it has learned and not sent comes back rounds
        later. 0.5 is good with signs and sparse values, and no gain with 4 bits (`docs/compression.md`). It needs a
        compressor with a residual (not DGC), `delay=0` and `blend=0`, and memory for one more copy of the parameters.
        From "step ahead" of Xu, Huo and Huang, 2021 (arXiv 2008.05823).
    **settings
        Fields of `RoundSettings`:

        - nonfinite : {"raise", "skip", "pass"}, default: "raise"; what to do if a pseudo-gradient has NaN or infinite
          values. "raise" raises DataError on all ranks. "skip" averages nothing: the outer optimizer steps with zeros,
          and the global values replace all values that are not finite. The state of the inner optimizer remains
          yours. "pass" averages them uncompressed.
        - process_group : torch.distributed.ProcessGroup or None, default: None, for the default group.
        - debug : bool, default: False; check in every round that all ranks got identical bytes and that
          pseudo-gradients and residuals are conserved.
        - timeout : float, default: 600; seconds that a rank waits for another.
        - link_model : AlphaBetaModel or None, default: None; the cost model that chooses the collective.

    Attributes
    ----------
    transport : Transport
        Moves bytes between ranks; its `sent` counts all of them.
    inner_steps : int
        Inner steps so far, also before a restart.

    Raises
    ------
    DataError
        A wrong setting, such as `step_ahead` with a compressor without residual; a parameter of another type;
        ranks with different settings or shapes.
    BitlaneError
        If there is no process group.
    RankFailed
        If another rank failed, ended or did not answer in time.

    Examples
    --------
    >>> from bitlane.compress.local.diloco import DiLoCo
    >>> optimizer = torch.optim.AdamW(model.parameters())  # doctest: +SKIP
    >>> with DiLoCo(model, every=100) as diloco:  # doctest: +SKIP
    ...     for x, y in batches:
    ...         optimizer.zero_grad()
    ...         loss(model(x), y).backward()
    ...         optimizer.step()
    ...         diloco.step()
    """

    def __init__(
        self,
        model: nn.Module,
        outer_optimizer: OuterOptimizer | None = None,
        compressor: Compressor = FOUR_BITS,
        every: int = 100,
        fragments: int = 1,
        delay: int = 0,
        blend: float | None = None,
        step_ahead: float = 0.0,
        **settings: Any,
    ):
        rounds = RoundSettings(**settings)
        check_arguments(model, outer_optimizer, compressor, rounds)
        self.model = model
        self.compressor = compressor
        self.rounds = rounds
        self.schedule = RoundSchedule.checked(every, fragments, delay, blend, step_ahead)
        fragments_of_model = split_parameters(model, self.schedule.fragments)
        self.inner_steps = 0
        self._steps_here = 0  # since the constructor
        self._stats = Stats()
        self._pending: Pending | None = None
        self._closed = False
        self.transport: Transport = TorchTransport(rounds.process_group, rounds.timeout)
        try:
            warm_up(compressor, self.transport.size)
            tensors = named_tensors(model)
            check_same_settings(self.transport, "\n".join([self.schedule.text, *shapes_of(tensors)]))
            make_same(self.transport, tensors)
            outer = outer_optimizer or nesterov
            self._fragments = [
                GlobalFragment(each[1], outer, partial(self._runner, *each)) for each in enumerate(fragments_of_model)
            ]
            check_step_ahead(self.schedule, self._fragments, compressor)
            self._settings = f"{self.schedule.text}, {compressor!r}, {self._fragments[0].optimizer!r}"
            check_same_settings(self.transport, self._settings)
        except BaseException:
            self.transport.abort()
            raise

    def _runner(self, number: int, fragment: Fragment) -> StepRunner:
        link_model = self.rounds.link_model or AlphaBetaModel()
        rules = StepRules(self.rounds.nonfinite, self.rounds.debug)
        compressor = with_own_seed(self.compressor, number)
        return StepRunner(compressor, self.transport, link_model, fragment.layout, fragment.device, self._stats, rules)

    @property
    def stats(self) -> LocalStats:
        """Bytes and rounds of this rank, beside the bytes of DistributedDataParallel for as many steps."""
        rounds, values = self._stats, sum(each.fragment.count for each in self._fragments)
        ring = ring_bytes(values, self.transport.size) * self._steps_here
        counts = (self._steps_here, rounds.steps, rounds.total.bytes_sent)
        return LocalStats(*counts, ring, rounds.skipped, rounds.uncompressed)

    @property
    def outer_optimizers(self) -> list[Any]:
        """The outer optimizer of each fragment, for example to change its learning rate, on all ranks alike."""
        return [each.optimizer for each in self._fragments]

    def step(self) -> None:
        """Count an inner step; begin the round and apply the average that are due.

        Call it after each step of the inner optimizer, on all ranks equally often.

        Raises
        ------
        DataError
            On all ranks, if a pseudo-gradient is not finite and `nonfinite` is "raise".
        RankFailed
            If another rank failed, ended or did not answer in time.
        BitlaneError
            After `close()`.
        """
        if self._closed:
            raise BitlaneError("step() after close(): create a new DiLoCo and load the state of this one")
        self.inner_steps += 1
        self._steps_here += 1
        if self._pending is not None and (self._pending.average.failed or self._pending.due <= self.inner_steps):
            self._apply_pending()
        begins = self.schedule.begins(self.inner_steps)
        if begins is not None:
            self._begin(begins)

    def _begin(self, number: int) -> None:
        fragment = self._fragments[number]
        if not self.schedule.delay:
            average = fragment.average(fragment.pseudo_gradient)
            with self._abort_on_error():
                fragment.apply(average, self.schedule, self.rounds.nonfinite == "skip")
            return
        with self._abort_on_error():
            vector = fragment.pseudo_gradient()
            running = BackgroundAverage(lambda: fragment.average(lambda: vector), vector.device)
        self._pending = Pending(number, self.inner_steps + self.schedule.delay, running)

    def _apply_pending(self) -> None:
        assert self._pending is not None
        pending, self._pending = self._pending, None
        average = pending.average.result()
        with self._abort_on_error():
            fragment = self._fragments[pending.fragment]
            fragment.apply(average, self.schedule, self.rounds.nonfinite == "skip")

    @contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        """Leave the process group if this rank fails by itself, so that the others do not wait for it."""
        try:
            yield
        except BaseException:
            self.transport.abort()
            raise

    def finish(self) -> None:
        """Set the parameters to the global ones, for an evaluation or at the end; an average in progress is applied.

        After it the parameters have identical bytes on all ranks. What a rank has learned since the last round of a
        fragment is dropped. All ranks call it after the same step.

        Raises
        ------
        RankFailed
            If another rank failed, ended or did not answer in time.
        """
        if self._pending is not None:
            self._apply_pending()
        for each in self._fragments:
            each.set_parameters()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rank: tensors, numbers and text, which `torch.load(weights_only=True)` reads.

        It waits for an exchange in progress. The parameters of the model are not part of it, and differ between ranks:
        each rank saves this state, its model and its inner optimizer.

        Raises
        ------
        RankFailed
            If an exchange in progress failed because of another rank.
        """
        pending = None
        if self._pending is not None:
            average = self._pending.average.result().clone()
            pending = {"fragment": self._pending.fragment, "due": self._pending.due, "average": average}
        return {
            **self._identity(),
            "step": self.inner_steps,
            "fragments": [each.state_dict() for each in self._fragments],
            "pending": pending,
            "model": digest(saved_tensors(self.model)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state_dict` returned on this rank. Training continues bit for bit.

        Load the state of the model first: the constructor replaces parameters, so make the `DiLoCo` before that. A
        state of `redistribute_local` sets the parameters to the global ones instead.

        Parameters
        ----------
        state : mapping
            The state.

        Raises
        ------
        DataError
            If the state is from other settings, another rank or number of ranks, or if the model has other values
            than when the state was saved. Nothing has changed then.
        """
        self._check(state)
        if self._pending is not None:
            self._pending.average.wait()
        for fragment, saved in zip(self._fragments, state["fragments"], strict=True):
            fragment.load_state_dict(saved)
        self.inner_steps, pending = state["step"], state["pending"]
        self._pending = None
        if pending is not None:
            average = pending["average"].to(self._fragments[pending["fragment"]].vector.device, copy=True)
            self._pending = Pending(pending["fragment"], pending["due"], FinishedAverage(average))
        if state["model"] is None:
            self.finish()

    def _identity(self) -> dict[str, Any]:
        rank, ranks = self.transport.rank, self.transport.size
        shapes = shapes_of(trained_parameters(self.model))
        return {"format": FORMAT, "ranks": ranks, "rank": rank, "settings": self._settings, "shapes": shapes}

    def _check(self, state: Mapping[str, Any]) -> None:
        """Raise DataError unless `load_state_dict` can restore the state."""
        own = self._identity()
        if not isinstance(state, Mapping):
            raise DataError(f"not a state of DiLoCo: {type(state).__name__}")
        check_identity(state, own, ("step", "fragments", "pending", "model"), "DiLoCo", "redistribute_local")
        if len(state["fragments"]) != len(self._fragments):
            raise DataError(
                f"the saved state has {len(state['fragments'])} fragments instead of {len(self._fragments)}"
            )
        for number, (fragment, saved) in enumerate(zip(self._fragments, state["fragments"], strict=True)):
            fragment.check(saved, with_own_seed(self.compressor, number), own["rank"], own["ranks"])
        self._check_pending(state["step"], state["pending"])
        if state["model"] is not None and state["model"] != digest(saved_tensors(self.model)):
            raise DataError(
                "the parameters or buffers of the model differ from the saved state: create the DiLoCo, load the "
                "state of this rank's model, then that of the DiLoCo"
            )

    def _check_pending(self, saved_step: object, pending: object) -> None:
        step = as_integer("step of the saved state", saved_step, 0)
        if pending is None:
            return
        if not isinstance(pending, Mapping) or set(pending) != {"fragment", "due", "average"}:
            raise DataError("a pending average in the saved state must have fragment, due and average")
        number, due = pending["fragment"], as_integer("due", pending["due"], 1)
        begun = due - self.schedule.delay
        if not begun <= step < due or self.schedule.begins(begun) != number:
            raise DataError(f"the saved state of step {step} cannot have an average of fragment {number} due at {due}")
        check_vector("the average", pending["average"], self._fragments[number].vector.float())

    def close(self) -> None:
        """Free the connections and threads. A second call does nothing.

        It waits for an exchange in progress, whose average is not applied, and raises none of its errors. Call it
        after the same step on all ranks.
        """
        self._closed = True
        if self._pending is not None:
            self._pending.average.wait()
            self._pending = None
        self.transport.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return Detached.of(self)

    def __enter__(self) -> DiLoCo:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # the others do not have to wait for this rank
            with suppress(Exception):
                self.transport.abort()
            self._pending = None  # gloo cannot interrupt its thread, which ends when the other ranks notice
        self.close()
