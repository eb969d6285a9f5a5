"""The allocator against a list of its pages: any order of `take` and `give`."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.helpers.properties import share

from bitlane.errors import DeviceError
from bitlane_sim.rtl.allocator import PAGE, FreeList

BASE = 7 * PAGE
LARGEST = 12  # pages


class Allocations(RuleBasedStateMachine):
    """The model is a list with an entry for each page: None if it is free, else the address it belongs to."""

    taken = Bundle("taken")

    @initialize(pages=st.integers(1, LARGEST))
    def make(self, pages: int) -> None:
        self.free_list = FreeList(BASE, pages * PAGE)
        self.pages: list[int | None] = [None] * pages

    def first_fit(self, needed: int) -> int | None:
        starts = range(len(self.pages) - needed + 1)
        return next((i for i in starts if self.pages[i : i + needed] == [None] * needed), None)

    @rule(target=taken, nbytes=st.integers(0, (LARGEST + 1) * PAGE))
    def take(self, nbytes: int) -> int | None:
        needed = max(1, -(-nbytes // PAGE))
        start = self.first_fit(needed)
        if start is None:
            with pytest.raises(DeviceError, match=f"no room for {nbytes} bytes"):
                self.free_list.take(nbytes)
            return None
        address = self.free_list.take(nbytes)
        assert address == BASE + start * PAGE
        self.pages[start : start + needed] = [address] * needed
        return address

    @rule(address=consumes(taken))
    def give(self, address: int | None) -> None:
        if address is not None:
            self.free_list.give(address)
            self.pages = [None if page == address else page for page in self.pages]

    @rule(page=st.integers(0, LARGEST))
    def give_what_is_free(self, page: int) -> None:
        address = BASE + page * PAGE
        if address not in self.pages:
            with pytest.raises(KeyError):
                self.free_list.give(address)

    @invariant()
    def free_pages_are_counted(self) -> None:
        if hasattr(self, "pages"):
            assert self.free_list.free_bytes == self.pages.count(None) * PAGE


test_any_order = Allocations.TestCase
test_any_order.settings = share(0.2)


@pytest.mark.parametrize(("base", "capacity"), [(1, PAGE), (PAGE, PAGE + 8), (PAGE, 0), (0, -PAGE)])
def test_a_range_that_is_not_of_complete_pages(base: int, capacity: int) -> None:
    with pytest.raises(ValueError, match=f"capacity={capacity}"):
        FreeList(base, capacity)
