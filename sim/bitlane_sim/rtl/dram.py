"""The timing of DRAM channels, from data sheets, for the memories of a simulated accelerator; see `cpp/dram.h`."""

from __future__ import annotations

from dataclasses import dataclass

from bitlane.contract.layout import BURST_BEATS

TICKS = 1024  # of a cycle


@dataclass(frozen=True)
class DramTicks:
    """The timing of a channel in 1/1024 of a cycle of the port, in the order of `DramSettings` in `cpp/abi.h`."""

    banks: int
    row_bytes: int
    beat: int
    column: int
    activate: int
    precharge: int
    row_cycle: int
    turnaround: int
    refresh_every: int
    refresh: int


@dataclass(frozen=True)
class DramTiming:
    """A channel of DRAM. Names in brackets are those of the standards of JEDEC; times are in nanoseconds.

    Attributes
    ----------
    name : str
    bytes_per_second : float
        Of the data bus.
    banks, row_bytes : int
    column : float
        From the column of an open row to its data (tCL).
    activate, precharge, row_cycle : float
        To open a row (tRCD), to close it (tRP), and from one opening of a bank to the next (tRC).
    turnaround : float
        Of the bus between reads and writes (about tWTR + tCWL).
    refresh_every, refresh : float
        The period of refreshes of all banks (tREFI), and the time of one (tRFC).
    """

    name: str
    bytes_per_second: float
    banks: int
    row_bytes: int
    column: float
    activate: float
    precharge: float
    row_cycle: float
    turnaround: float
    refresh_every: float
    refresh: float

    def ticks(self, clock_hz: float, port_bytes: int) -> DramTicks:
        """Return the timing for a port of so many bytes a beat at a clock.

        Raises
        ------
        ValueError
            The refreshes leave no time for a burst.
        """
        burst = 1e9 * BURST_BEATS * port_bytes / self.bytes_per_second
        opening = self.precharge + self.activate + self.column
        if self.refresh_every < max(2 * self.refresh, self.refresh + self.precharge + opening + burst):
            raise ValueError(
                f"a refresh of {self.refresh:g} ns every {self.refresh_every:g} ns leaves no time for bursts"
            )
        per_ns = clock_hz * 1e-9 * TICKS

        def rounded(nanoseconds: float) -> int:
            return round(nanoseconds * per_ns)

        return DramTicks(
            self.banks,
            self.row_bytes,
            rounded(1e9 * port_bytes / self.bytes_per_second),
            *map(rounded, (self.column, self.activate, self.precharge, self.row_cycle)),
            *map(rounded, (self.turnaround, self.refresh_every, self.refresh)),
        )


# IS43TR16256A-125KBL, 4 Gb, 16 bits at 1,050 MT/s: data sheet of ISSI, reference manual of the PYNQ-Z1 and PYNQ-Z2.
DDR3_PYNQ = DramTiming("DDR3 of a PYNQ-Z2", 2.1e9, 8, 2048, 13.75, 13.75, 13.75, 48.75, 20.0, 7800.0, 260.0)
# A pseudo channel of HBM2, 64 bits at 1.8 GT/s (UG1393: 14.4 GB/s), 8 Gb a channel: JESD235.
HBM2 = DramTiming("pseudo channel of HBM2", 14.4e9, 16, 1024, 14.0, 14.0, 14.0, 48.0, 12.0, 3900.0, 350.0)
DRAMS = DDR3_PYNQ, HBM2
