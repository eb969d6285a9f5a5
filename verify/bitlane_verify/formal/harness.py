"""A block under proof: free inputs, access to its internals, and the statements of properties."""

# The names in an Inside are looked up at run time: what it and an interface hold is Any.
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.back import rtlil
from amaranth.hdl import (
    Assert,
    Assume,
    ClockDomain,
    Const,
    Cover,
    Fragment,
    Module,
    Mux,
    ShapeLike,
    Signal,
    Value,
    ValueLike,
)
from amaranth.hdl._ast import SignalSet
from amaranth.lib import wiring


class Inside:
    """The signals and submodules of an elaborated block, by name: `inside["burst_generator"]["credits_0"]`.

    Attributes
    ----------
    component : Component
        The block.
    """

    def __init__(self, fragment: Fragment):
        self._fragment = fragment
        self.component: Any = fragment.origins[0] if fragment.origins else None
        self._signals: dict[str, list[Any]] = {}
        for statements in fragment.statements.values():
            for signal in statements._lhs_signals():
                named = self._signals.setdefault(signal.name, [])
                if all(signal is not other for other in named):
                    named.append(signal)

    def __getitem__(self, name: str) -> Signal:
        """Return the signal or the submodule of this name.

        Raises
        ------
        KeyError
            No signal or submodule has this name, or more than one.
        """
        blocks = [fragment for fragment, block, _ in self._fragment.subfragments if block == name]
        matches = self._signals.get(name, []) + [Inside(fragment) for fragment in blocks]
        if len(matches) != 1:
            signals = ", ".join(sorted(self._signals))
            raise KeyError(f"{len(matches)} signals or submodules are named {name!r}; need exactly one of: {signals}")
        return matches[0]

    @property
    def registers(self) -> list[Any]:
        """The registers of the block and of its submodules, without memories.

        A signal with bits that are no registers is left out.
        """
        driven = {domain: list(block._lhs_signals()) for domain, block in self._fragment.statements.items()}
        wires = SignalSet(driven.pop("comb", ()))
        here = [signal for signals in driven.values() for signal in signals if signal not in wires]
        return here + [signal for inner, *_ in self._fragment.subfragments for signal in Inside(inner).registers]

    def peek(self, address: ValueLike, shape: ShapeLike) -> Any:
        """Return the content of this memory, or of the only memory in this block, at an address.

        Raises
        ------
        KeyError
            The block does not have exactly one memory.
        """
        fragments = (self._fragment, *(block for block, *_ in self._fragment.subfragments))
        memories = [fragment for fragment in fragments if hasattr(fragment, "read_port")]
        if len(memories) != 1:
            raise KeyError(f"{len(memories)} memories; need exactly one")
        data = Signal(shape, name="peeked")
        memories[0].read_port(domain="comb", addr=address, data=data, en=Const(1), transparent_for=())
        return data

    def state(self, name: str, machine: str = "fsm") -> Any:
        """Return 1 if the state machine `machine` of the block is in the state `name`."""
        return self[f"{machine}_state"] == self._fragment.generated[machine].encoding[name]


ANY_START = "any_start"  # attribute of registers that begin a base case with any value


class ProofHarness:
    """A module that contains one block. Every input of the block is free until `assume` restricts it.

    The first step of the base case is the first cycle after a reset: registers that the reset sets have their initial
    values; the others, and the memories, hold anything.

    Parameters
    ----------
    block : Component
        The block.
    powered_up : bool, default=False
        Start the base case after the configuration of the chip instead: all registers have their initial values.

    Attributes
    ----------
    block : Component
        The block.
    inside : Inside
        Its internals.
    m : Module
        The module, for logic that a proof adds. `sync` is the clock of the block.
    covers : int
        Number of covers.
    """

    def __init__(self, block: wiring.Component, powered_up: bool = False):
        self.block = block
        self.m = Module()
        self.m.domains.sync = self._domain = ClockDomain("sync", reset_less=True)
        fragment = Fragment.get(block, None)
        self.m.submodules.block = fragment
        self.inside = Inside(fragment)
        for signal in self.inside.registers:
            if signal.reset_less and not powered_up:
                signal.attrs[ANY_START] = 1
        self.covers = 0
        self._ghosts = 0
        self._settled: list[str] = []

    def rtlil(self) -> str:
        """Return the module as RTLIL, the input format of Yosys."""
        members = self.block.signature.flatten(self.block)
        values = (Value.cast(value) for _, member, value in members if member.flow == wiring.In)
        inputs = [
            value for value in values if isinstance(value, Signal) and len(value)
        ]  # not the constants of always_valid, always_ready
        text = str(rtlil.convert(self.m, name="top", ports=[self._domain.clk, *inputs]))
        for name in self._settled:
            text = re.sub(rf"attribute \\init .*\n(?=(?:\s*attribute .*\n)*\s*wire .*\\{name}\n)", "", text)
        return text

    # --- statements
    def always(self, *conditions: ValueLike) -> None:
        """Assert that the conditions hold in every cycle."""
        for number, condition in enumerate(conditions):
            statement = Assert(condition, src_loc_at=1)
            file, line = statement.src_loc
            statement.src_loc = (f"{Path(file).name}[{number}]", line)
            self.m.d.comb += statement

    def assume(self, *conditions: ValueLike) -> None:
        """Assume that the conditions hold in every cycle."""
        for condition in conditions:
            self.m.d.comb += Assume(condition, src_loc_at=1)

    def settled(self, register: Signal, value: ValueLike) -> None:
        """Assume that a register has its final value from the first cycle on.

        This is for registers of inputs that never change and are set before the first cycle.
        """
        self._settled.append(register.name)
        self.assume(same(register, value[: len(register)]))

    def cover(self, condition: ValueLike) -> None:
        """Require that some run reaches the condition."""
        self.covers += 1
        self.m.d.comb += Cover(condition, src_loc_at=1)

    # --- ghosts: signals that only the proof uses
    def ghost(self, shape: ShapeLike, name: str, init: ValueLike | None = None) -> Signal:
        """Return a register that the proof drives."""
        self._ghosts += 1
        return Signal(shape, name=f"{name}_ghost_{self._ghosts}", init=init)

    def constant(self, shape: ShapeLike, name: str) -> Signal:
        """Return an arbitrary value that is the same in every cycle."""
        signal = self.ghost(shape, name)
        self.m.d.comb += Value.cast(signal).eq(AnyConst(len(Value.cast(signal))))
        return signal

    def anything(self, shape: ShapeLike, name: str) -> Signal:
        """Return an arbitrary value that may change in every cycle."""
        signal = self.ghost(shape, name)
        self.m.d.comb += Value.cast(signal).eq(AnySeq(len(Value.cast(signal))))
        return signal

    def hold(self, *inputs: ValueLike) -> None:
        """Assume that the inputs never change."""
        for value in inputs:
            raw = Value.cast(value)
            self.m.d.comb += Assume(raw == AnyConst(len(raw)), src_loc_at=1)

    def past(self, value: ValueLike, init: int = 0) -> Any:
        """Return the value of the previous cycle; `init` in the first cycle."""
        raw = Value.cast(value)
        signal = self.ghost(raw.shape(), "past", init)
        self.m.d.sync += signal.eq(raw)
        return signal

    def ever(self, event: ValueLike) -> Any:
        """Return 1 from the cycle after the first `event` on."""
        signal = self.ghost(1, "ever")
        with self.m.If(event):
            self.m.d.sync += signal.eq(1)
        return signal

    def count(self, up: ValueLike, down: ValueLike = 0, bits: int = 16, init: int = 0, clear: ValueLike = 0) -> Any:
        """Return the sum of `up` minus `down` before this cycle and since the last `clear`, modulo 2**bits."""
        signal = self.ghost(bits, "count", init)
        self.m.d.sync += signal.eq(Mux(clear, 0, signal + up - down))
        return signal

    def waiting(self, condition: ValueLike, bits: int = 16) -> Any:
        """Return for how many consecutive cycles, without this one, the condition has held."""
        return self.count(condition, bits=bits, clear=~Value.cast(condition).any())

    def within(self, condition: ValueLike, cycles: int) -> Any:
        """Assume that the condition never holds for `cycles` consecutive cycles.

        Returns
        -------
        Signal
            For how many consecutive cycles, without this one, the condition has held.
        """
        waited = self.waiting(condition)
        self.m.d.comb += [
            Assume(~(Value.cast(condition).any() & (waited >= cycles - 1)), src_loc_at=1),
            Assert(waited < cycles, src_loc_at=1),
        ]
        return waited


def implies(condition: ValueLike, consequence: ValueLike) -> Any:
    """Return 1 if the condition is 0 or the consequence is 1."""
    return ~Value.cast(condition).any() | Value.cast(consequence).any()


def same(a: ValueLike, b: ValueLike) -> Any:
    """Return 1 if all bits of two payloads are equal."""
    return Value.cast(a).as_unsigned() == Value.cast(b).as_unsigned()
