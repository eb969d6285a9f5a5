"""Samples on their way to the device: one start's are there, the next one's are brought while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType

from bitlane.driver.driver import Driver
from bitlane.driver.job import SampleBuffers

from .launches import Launch


class DoubleBuffer:
    """One slot for samples, or two that take turns. A context manager: in the end their buffers are freed.

    Parameters
    ----------
    accelerator: whose device has the slots.
    starts: one at least, each encoded when it is fetched; none has more samples than the first.
    ahead: whether there is room for two starts' samples.

    Members
    -------
    start: the one whose turn it is; None when there are no more.
    slot: with its samples.
    """

    def __init__(self, accelerator: Driver, starts: Iterator[Launch], ahead: bool):
        self._accelerator = accelerator
        self._starts = starts
        self._ahead = ahead
        self._stack = ExitStack()
        self._slots: list[SampleBuffers] = []
        self._next: Launch | None = None
        self._fetched = False
        self.launch: Launch | None = None

    @property
    def buffers(self) -> SampleBuffers:
        return self._slots[0]

    def fetch(self) -> None:
        """Encodes the next start's samples and brings them where there is room: for while the present one runs."""
        if self._ahead:
            self._fetch(1)

    def advance(self) -> None:
        """The present start is over: the next one's turn comes."""
        if self._fetched:
            self._slots.reverse()
        else:
            self._fetch(0)
        self.launch, self._next, self._fetched = self._next, None, False

    def _fetch(self, place: int) -> None:
        self._next = next(self._starts, None)
        if self._next is not None:
            base, draws = self._next.base_regions, self._next.draw_regions
            if place == len(self._slots):
                if not self._slots:
                    self._sizes = sum(map(len, base)), sum(map(len, draws))
                self._slots.append(self._stack.enter_context(self._accelerator.sample_buffers(*self._sizes)))
            self._slots[place].fill(base, draws)
        self._fetched = True

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
