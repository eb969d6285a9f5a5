"""Open devices that clones share and pickles refuse: hardware, and simulators in a library."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from bitlane.errors import DeviceError

Same = TypeVar("Same", bound="SingleDevice")


class SingleDevice:
    """A device whose copies are itself, so that clones of an estimator share it. It cannot be pickled."""

    name: str

    def __copy__(self: Same) -> Same:
        return self

    def __deepcopy__(self: Same, memo: dict[int, Any]) -> Same:
        return self

    def __reduce__(self) -> NoReturn:
        name = self.name.partition(" ")[0]
        raise DeviceError(f"an open device cannot be saved or sent to another process: name it, device={name!r}")
