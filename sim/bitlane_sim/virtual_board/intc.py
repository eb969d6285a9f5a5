"""The registers of an AXI interrupt controller that pynq uses (AMD PG099), for one interrupt line."""

from __future__ import annotations

from collections.abc import Callable

ISR, IPR, IER, IAR, SIE, CIE, MER = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x1C


class InterruptController:
    """A level-sensitive interrupt controller.

    Parameters
    ----------
    line : callable
        `line()` returns whether the interrupt is high.
    """

    def __init__(self, line: Callable[[], bool]):
        self._line = line
        self._enabled = 0

    @property
    def output(self) -> bool:
        """Level of its interrupt to the processor."""
        return bool(self.read(IPR))

    def read(self, offset: int) -> int:
        """Read a register."""
        if offset in (ISR, IPR):
            return int(self._line()) & (self._enabled if offset == IPR else 1)
        return self._enabled if offset == IER else 0

    def write(self, offset: int, value: int) -> None:
        """Write a register. To acknowledge a level that is still high has no effect."""
        if offset == IER:
            self._enabled = value
        elif offset == SIE:
            self._enabled |= value
        elif offset == CIE:
            self._enabled &= ~value
