"""A block whose reset is an input, so that a proof may reset it in any cycle."""

from __future__ import annotations

from amaranth.hdl import Const, Module, ResetInserter, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Resettable(wiring.Component):  # type: ignore[misc]
    """A block with its reset as an input.

    Parameters
    ----------
    core : Component
        The block. Its submodule here is named `core`.

    Members
    -------
    core : the block's signature, out
        Its ports.
    rst : 1 bit, in
        Its reset.
    """

    def __init__(self, core: wiring.Component):
        self._core = core
        super().__init__({"core": Out(core.signature), "rst": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Connect the block; member by member, because `wiring.connect` cannot flip an array of interfaces."""
        m = Module()
        core = self._core
        m.submodules.core = ResetInserter(self.rst)(core)
        inside, outside = (core.signature.flatten(ports) for ports in (core, self.core))
        for (_, member, inner), (_, _, outer) in zip(inside, outside, strict=True):
            target, source = (outer, inner) if member.flow is Out else (inner, outer)
            if not isinstance(Value.cast(target), Const):  # as `valid` of a stream that is always valid
                m.d.comb += target.eq(source)
        return m
