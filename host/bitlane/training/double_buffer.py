"""The run loop of a training: the samples of a launch are encoded and loaded while the launch before it runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType

from bitlane.contract.state import ModelState
from bitlane.devices.protocol import Device
from bitlane.driver.buffers import SampleBuffers
from bitlane.driver.driver import Driver
from bitlane.driver.job import JobResult
from bitlane.driver.trace import OnEpoch
from bitlane.support.phases import PhaseClock

from .kept_samples import KeptSamples, warn_not_kept
from .launches import Launch, launches
from .on_device import device_encoding, run_encoded_launches
from .plan import ExecutionPlan
from .samples import SampleEncoder


def run_launches(
    driver: Driver,
    plan: ExecutionPlan,
    encoder: SampleEncoder,
    state: ModelState,
    on_epoch: OnEpoch | None = None,
    clock: PhaseClock | None = None,
    kept: KeptSamples | None = None,
    key: Hashable = None,
) -> Iterator[tuple[Launch, JobResult]]:
    """Run all launches of a plan, one after the other, and yield each with its result.

    The encoder of the device makes the samples if it can (`on_device`); otherwise the host does.

    Buffers are freed at the end, also if the caller stops early.

    Parameters
    ----------
    driver : Driver
    plan : ExecutionPlan
    encoder : SampleEncoder
        Encodes the samples of each launch.
    state : ModelState
        Weights and registers at the start.
    on_epoch : callable, optional
        As for `Driver.run`, for launches over all rows: those over some rows end no epoch, or count it with others.
    clock : PhaseClock, optional
        Counts the phases "encode", "copy" (of samples to the device) and "train".
    kept : KeptSamples, optional
        Where samples stay for later trainings, if the plan is one launch.
    key : hashable
        `samples_key` of the samples. Only with `kept`.
    """
    clock = clock or PhaseClock()
    keep = None
    if kept is not None and plan.launch_epochs < plan.epochs - plan.first_epoch:
        warn_not_kept("the training takes several launches; fewer epochs or draws, or more memory, make it one")
    elif kept is not None:
        if (held := kept.find(key)) is not None:
            again = replace(held[0], epochs=plan.launch_epochs)
            with clock.during("train"):
                result = driver.run(again.job(plan, state), on_epoch, held[1])
            yield again, result
            return
        kept.free()  # room for these
        keep = partial(kept.hold, key)
    if (how := device_encoding(driver.config, plan, encoder)) is not None:
        one = how.plan.launch_epochs == plan.launch_epochs
        if keep is not None and not one:
            warn_not_kept("they have no room beside the raw rows; take a device with more memory")
        yield from run_encoded_launches(driver, how, encoder, state, on_epoch, clock, keep if one else None)
        return
    with DoubleBuffer(driver.device, launches(plan, encoder), plan.double_buffered, clock) as buffer:
        while (launch := buffer.launch) is not None:
            if keep is not None:
                keep(launch, buffer.give())
            report = on_epoch if launch.covers_all_rows else None
            with clock.during("train"):
                result = driver.run(launch.job(plan, state), report, buffer.samples, buffer.prefetch)
            state = Launch.next_state(state, result)
            yield launch, result
            buffer.advance()


class DoubleBuffer:
    """Sample buffers for a sequence of launches: one, or two in turn. A context manager.

    Parameters
    ----------
    device : Device
    launches : iterator of Launch
        At least one; none has more samples than the first.
    doubled : bool
        Whether the device has room for the samples of two launches.
    clock : PhaseClock

    Attributes
    ----------
    launch : Launch or None
        The current launch; None after the last.
    """

    def __init__(self, device: Device, launches: Iterator[Launch], doubled: bool, clock: PhaseClock):
        self._device = device
        self._clock = clock
        self._launches = launches
        self._doubled = doubled
        self._stack = ExitStack()
        self._buffers: list[SampleBuffers] = []
        self._next: Launch | None = None
        self._prefetched = False
        self.launch: Launch | None = None

    @property
    def samples(self) -> SampleBuffers:
        """The buffers with the samples of the current launch."""
        return self._buffers[0]

    def give(self) -> SampleBuffers:
        """Return the buffers of the only launch; the caller frees them."""
        self._stack.pop_all()
        return self.samples

    @property
    def prefetch(self) -> Callable[[], None]:
        """A function that encodes and loads the next launch if there is room: to be called while this one runs."""
        return (lambda: self._fetch(1)) if self._doubled else (lambda: None)

    def advance(self) -> None:
        """Make the next launch the current one."""
        if self._prefetched:
            self._buffers.reverse()
        else:
            self._fetch(0)
        self.launch = self._next
        self._next = None
        self._prefetched = False

    def _fetch(self, position: int) -> None:
        with self._clock.during("encode"):
            self._next = next(self._launches, None)
        if self._next is not None:
            base, draws = self._next.base_regions, self._next.draw_regions
            if position == len(self._buffers):
                if not self._buffers:
                    self._sizes = sum(map(len, base)), sum(map(len, draws))
                samples = SampleBuffers(self._device, self._next.geometry, *self._sizes)
                self._buffers.append(self._stack.enter_context(samples))
            with self._clock.during("copy"):
                self._buffers[position].fill(base, draws)
        self._prefetched = True

    def __enter__(self) -> DoubleBuffer:
        with ExitStack() as stack:
            stack.push(self)
            self.advance()
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()
