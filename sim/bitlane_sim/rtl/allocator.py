"""The allocator of a device's memory."""

from __future__ import annotations

from bisect import bisect_left

from bitlane.errors import DeviceError

PAGE = 4096


class FreeList:
    """First-fit allocation of complete pages from one range of addresses.

    Parameters
    ----------
    base, capacity : int
        Start and size of the range in bytes, both multiples of `PAGE`.

    Raises
    ------
    ValueError
        If one of them is not a multiple, or the range is empty.
    """

    def __init__(self, base: int, capacity: int):
        if base % PAGE or capacity % PAGE or capacity <= 0:
            raise ValueError(f"base={base:#x} and capacity={capacity} must be multiples of {PAGE}")
        self.capacity = capacity
        self._holes = [(base, capacity)]  # sorted by address; no two are adjacent
        self._taken: dict[int, int] = {}

    @property
    def free_bytes(self) -> int:
        return sum(size for _, size in self._holes)

    def take(self, nbytes: int) -> int:
        """Return the address of `nbytes` bytes, a multiple of `PAGE`. Raises DeviceError if no hole is large enough."""
        size = max(1, -(-nbytes // PAGE)) * PAGE
        for i, (address, hole) in enumerate(self._holes):
            if hole >= size:
                self._holes[i : i + 1] = [(address + size, hole - size)] if hole > size else []
                self._taken[address] = size
                return address
        largest = max((hole for _, hole in self._holes), default=0)
        raise DeviceError(
            f"no room for {nbytes} bytes in the device's memory of {self.capacity}: "
            f"{self.free_bytes} are free, {largest} in one piece"
        )

    def give(self, address: int) -> None:
        """Free an address that `take` returned. Raises KeyError for any other address."""
        size = self._taken.pop(address)
        i = bisect_left(self._holes, (address, 0))
        self._holes.insert(i, (address, size))
        for left in (i, i - 1):  # merge with the neighbours, first with the right one
            if left >= 0 and left + 1 < len(self._holes):
                (a, m), (b, n) = self._holes[left : left + 2]
                if a + m == b:
                    self._holes[left : left + 2] = [(a, m + n)]
