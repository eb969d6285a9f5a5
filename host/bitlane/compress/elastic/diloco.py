"""DiLoCo whose ranks come and go: the others go on, with the bits of a training in which a lost rank never was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest
from time import perf_counter
from typing import Any

from torch import nn

from bitlane.errors import BitlaneError, DataError

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.echo import EchoTransport
from ..collectives.transport import RankFailed, Transport
from ..compressor import Compressor, with_own_seed
from ..ddp.stats import Stats
from ..ddp.steps import StepRules, StepRunner
from ..ddp.warm_up import warm_up
from ..detached import Detached
from ..local.diloco import FOUR_BITS
from ..local.fragments import Fragment, split_parameters
from ..local.outer import GlobalFragment, OuterOptimizer, check_step_ahead, nesterov
from ..local.same_start import named_tensors, shapes_of
from ..local.schedule import RoundSchedule
from .handover import MemberState, packed_state, unpacked_states
from .membership import CoordinatorLost, MembershipChanged, VotedOut
from .participant import Participant
from .settings import ElasticStats, MemberSettings, Place, check_elastic

FORMAT = 1
COMPILED_FOR = 2  # ranks


class ElasticDiLoCo:
    """Semi-synchronous training of a module, as in `DiLoCo`, by members that come and go.

    Start a coordinator with `python -m bitlane.compress.elastic`, and then members anywhere; no `torchrun` and no
    process group is needed. The constructor waits until this process is a member: for the first ones until all are
    there, later until the next round has counted. It then has the global parameters, the state of the outer optimizer
    and the number of steps of the others.

    If a member ends, hangs or is cut off, the others average the same round again without it. `step()` returns after a
    round that all members have. One that was voted out, for example because it was stopped, drops what it has learned
    since the last round that counted, and joins again.

    The state of the inner optimizer and buffers, such as the statistics of batch normalization, belong to each member.
    A new one begins with the buffers of another member, and with the state of its `inner_optimizers` if they are given.
    Let learning rates depend on `inner_steps`.

    Parameters
    ----------
    model, outer_optimizer, compressor, every, fragments, blend, step_ahead
        As in `DiLoCo`; equal on all members. The momentum of DGC cannot be handed over, so DGC is refused. There is no
        delay: a round that may be repeated cannot run beside steps. A member that joins, comes back or continues from a
        state begins with the global parameters, and is ahead of them after its first round.
    coordinator : str
        Its address, HOST:PORT.
    **settings
        - name : str or None, default: None; a name that no other member has. Ranks follow the order of names. None for
          the name of the machine and the process.
        - state : mapping or None, default: None; what `state_dict` returned, to continue from a checkpoint. Members
          with fewer steps get the state of the one with most.
        - inner_optimizers : sequence of torch.optim.Optimizer, default: (); those of this member. One that joins takes
          over the states of another member's, and `state_dict` has them.
        - rejoin : bool, default: True; False to raise VotedOut instead of joining again.
        - patience : float, default: 60; seconds in which a coordinator must be reached, also after it was lost.
        - timeout : float, default: 60; seconds without a byte in an exchange after which a member counts as lost.
        - nonfinite, debug, link_model: as in `DiLoCo`.

    Attributes
    ----------
    inner_steps : int
        Inner steps of the training so far, also before this member joined.
    round_members : tuple of str
        The members of the last round that counted; `members` may have changed after it.
    stats : ElasticStats
        What happened since then.

    Raises
    ------
    DataError
        A wrong setting; a parameter of another type.
    VotedOut
        If the coordinator refuses this member: its settings differ, its name is in use.
    CoordinatorLost
        If no coordinator can be reached.

    Examples
    --------
    >>> from bitlane.compress import ElasticDiLoCo
    >>> with ElasticDiLoCo(model, "10.0.0.1:29500", every=100) as diloco:  # doctest: +SKIP
    ...     while diloco.inner_steps < 10_000:
    ...         train_one_step(model, optimizer, data.rows(diloco.place))
    ...         diloco.step()
    """

    def __init__(
        self,
        model: nn.Module,
        coordinator: str,
        outer_optimizer: OuterOptimizer | None = None,
        compressor: Compressor = FOUR_BITS,
        every: int = 100,
        fragments: int = 1,
        blend: float | None = None,
        step_ahead: float = 0.0,
        **settings: Any,
    ):
        self.settings = MemberSettings(**settings)
        check_elastic(model, coordinator, outer_optimizer, compressor, self.settings)
        self.model, self.compressor = model, compressor
        self.schedule = RoundSchedule.checked(every, fragments, 0, blend, step_ahead)
        self.inner_steps, self.stats, self._traffic = 0, ElasticStats(), Stats()
        self.round_members: tuple[str, ...] = ()
        parts, outer = split_parameters(model, self.schedule.fragments), outer_optimizer or nesterov
        alone = EchoTransport(1)
        copies = [GlobalFragment(part, outer, partial(self._runner, alone, n, part)) for n, part in enumerate(parts)]
        check_step_ahead(self.schedule, copies, compressor)
        self._state = MemberState(model, copies, compressor, self.settings.inner_optimizers)
        self._text = self._settings_text()
        if self.settings.state is not None:
            self._load(self.settings.state)
        warm_up(compressor, COMPILED_FOR)
        unpacked_states(packed_state({}), "")  # imports parts of torch, for which the others would wait later
        self._membership = Participant(coordinator, self.settings, self._text, self._state, self.stats, self._runner)
        try:
            self._membership.join()
            self.inner_steps = self._state.step
        except BaseException:
            self._membership.disconnect()
            raise

    def _runner(self, transport: Transport, number: int, fragment: Fragment) -> StepRunner:
        link_model = self.settings.link_model or AlphaBetaModel()
        rules = StepRules(self.settings.nonfinite, self.settings.debug)
        compressor = with_own_seed(self.compressor, number)
        return StepRunner(compressor, transport, link_model, fragment.layout, fragment.device, self._traffic, rules)

    def _settings_text(self) -> str:
        optimizer = str(self._state.fragments[0].optimizer).replace("\n", " ")
        shapes = shapes_of(named_tensors(self.model))
        inner = f"{len(self.settings.inner_optimizers)} inner_optimizers"
        return "\n".join([f"FORMAT={FORMAT}", self.schedule.text, repr(self.compressor), optimizer, inner, *shapes])

    @property
    def name(self) -> str:
        """The name of this member."""
        return self._membership.name

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members of this generation, in the order of their ranks."""
        return self._membership.names

    @property
    def place(self) -> Place:
        """What decides which rows this member learns next, for `DataShare`."""
        return Place(self.inner_steps, self.members.index(self.name), len(self.members))

    @property
    def outer_optimizers(self) -> list[Any]:
        """The outer optimizer of each fragment, for example to change its learning rate, on all members alike."""
        return [each.optimizer for each in self._state.fragments]

    def digest(self) -> str:
        """Return a digest of the global parameters, the outer optimizers and the steps: equal on all members."""
        return self._state.digest()

    def step(self) -> None:
        """Count an inner step. If a round is due, average with the members that are there, until the round counts.

        Call it after each step of the inner optimizer. `inner_steps` may be larger afterwards, if this member was
        voted out and has joined again.

        Raises
        ------
        DataError
            On all members, if a pseudo-gradient is not finite and `nonfinite` is "raise".
        VotedOut
            If this member was voted out, and `rejoin` is False.
        CoordinatorLost
            If the coordinator was not reached within `patience` seconds. `state_dict()` still has the state.
        BitlaneError
            After `close()`, `leave()` or an error.
        """
        if self._membership.has_left:
            raise BitlaneError(f"step() of {self.name} after it has left: create a new ElasticDiLoCo")
        self.inner_steps += 1
        number = self.schedule.begins(self.inner_steps)
        if number is not None:
            self._complete_round(number, self.inner_steps)

    def _complete_round(self, number: int, due: int) -> None:
        """Average a fragment until the round counts, or this member has the state of others."""
        while self.inner_steps == due != self._state.step:
            start, membership = perf_counter(), self._membership
            try:
                failure = self._average(number, due)
                self.stats.rounds += 1
                membership.count_bytes()
                if membership.change_follows:
                    start = perf_counter()
                    membership.await_change()
                    self.stats.seconds += perf_counter() - start
            except MembershipChanged as change:
                self.stats.repeated += bool(self._state.before)
                self._follow(partial(membership.follow, change.formation))
            except (VotedOut, CoordinatorLost) as error:
                self._follow(partial(membership.rejoin, error))
            except BaseException:  # the others do not have to wait for this member
                membership.disconnect()
                raise
            else:
                if failure is not None:
                    raise failure
                return
            self.stats.seconds += perf_counter() - start

    def _follow(self, change: Callable[[], None]) -> None:
        """Change the membership; count the steps of the others if this member got their state."""
        before = self._state.handovers
        try:
            change()
        except BaseException:
            self._membership.disconnect()
            raise
        if self._state.handovers > before:
            self.inner_steps = self._state.step

    def _average(self, number: int, due: int) -> DataError | None:
        """Average a fragment over all members, and apply the average if all have it; return an error that all have."""
        fragment, membership = self._state.fragments[number], self._membership
        membership.send("arrived", step=due)
        membership.wait("average")
        self._state.begin_round(number)
        failure: DataError | None = None
        try:
            average = fragment.average(fragment.pseudo_gradient)
            digest = self._state.result_digest(number, average)
        except DataError as error:  # as on all others, or the round does not count
            failure, digest = error, f"error: {error}"
        except RankFailed as error:
            membership.report_failure("voted", error)
        membership.send("voted", ok=True, state=digest)
        try:
            membership.wait("commit")
        except MembershipChanged:
            if failure is not None:  # of this member only
                raise failure from None
            raise
        if failure is None:
            fragment.apply(average, self.schedule, self.settings.nonfinite == "skip")
        self._state.end_round(due)
        self.round_members = membership.names
        return failure

    def leave(self) -> None:
        """Leave the training, and hand what this member has not sent to its neighbour. It takes up to a round.

        Call it between steps, for example when the machine is reclaimed. What this member has learned since the last
        round is dropped; its parameters become the global ones. A second call does nothing.

        Raises
        ------
        VotedOut, CoordinatorLost
            If nothing could be handed over.
        """
        if not self._membership.has_left:
            self._membership.leave()
            self.finish()

    def finish(self) -> None:
        """Set the parameters to the global ones, identical on all members after a round that counted.

        What this member has learned since the last round of a fragment is dropped.
        """
        for each in self._state.fragments:
            each.set_parameters()

    def close(self) -> None:
        """End the training on this member and free its connections; the others go on. A second call does nothing.

        Its residuals are dropped, as in `DiLoCo`; `leave()` hands them over.
        """
        if not self._membership.has_left:
            self._membership.send("end")
            self._membership.disconnect()

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the last round that counted: tensors, numbers and text.

        It has the global parameters, and not what this member has learned since. Also after an error.
        """
        return {"format": FORMAT, "settings": self._text, **self._state.saved()}

    def _load(self, state: Mapping[str, Any]) -> None:
        missing = {"format", "settings", "step", "fragments", "tensors", "inner"} - set(state)
        if missing:
            raise DataError(f"not a state of ElasticDiLoCo: it has no {', '.join(sorted(missing))}")
        if state["settings"] != self._text:
            lines = zip_longest(state["settings"].splitlines(), self._text.splitlines())
            saved, own = next(pair for pair in lines if pair[0] != pair[1])
            raise DataError(f"the saved state has {saved} instead of {own}")
        self._state.load(state)
        self.inner_steps = self._state.step

    def __reduce__(self) -> tuple[Any, ...]:
        return Detached.of(self)

    def __enter__(self) -> ElasticDiLoCo:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._membership.disconnect()
