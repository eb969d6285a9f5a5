"""What a block takes for granted of the blocks around it, as assertions in the RTL."""

from __future__ import annotations

from amaranth.hdl import Assert, Module, Value


class Asserting:
    """The platform of a circuit that checks its own expectations: a simulator stops where one does not hold.

    A circuit that is built without it has no assertions, and is otherwise the same.
    """


def expect(m: Module, platform: object, condition: Value, text: str) -> None:
    """Assert at each rising edge of the clock that `condition` holds, if the platform is `Asserting`.

    Parameters
    ----------
    m : Module
        Module that receives the assertion.
    platform : object
        The argument of `elaborate`.
    condition : Value, 1 bit
        What the block expects.
    text : str
        What is wrong if the condition does not hold.
    """
    if isinstance(platform, Asserting):
        m.d.sync += Assert(condition, text)
