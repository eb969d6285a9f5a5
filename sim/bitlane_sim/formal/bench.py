"""A block under proof: free inputs, a view of its inside, and the statements that proofs are made of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from amaranth.asserts import AnyConst, AnySeq
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, ClockDomain, Const, Cover, Fragment, Module, Mux, Signal, Value
from amaranth.lib import wiring


class Inside:
    """The signals and blocks of an elaborated block, by name: `inside["requester"]["credits_0"]`."""

    def __init__(self, fragment: Any):
        self._fragment = fragment
        self.component: Any = fragment.origins[0] if fragment.origins else None
        self._signals: dict[str, list[Any]] = {}
        for statements in fragment.statements.values():
            for signal in statements._lhs_signals():
                named = self._signals.setdefault(signal.name, [])
                if all(signal is not other for other in named):
                    named.append(signal)

    def __getitem__(self, name: str) -> Any:
        """The one signal, or the block, of this name. Raises KeyError where there is none or more than one."""
        blocks = [fragment for fragment, block, _ in self._fragment.subfragments if block == name]
        found = self._signals.get(name, []) + [Inside(fragment) for fragment in blocks]
        if len(found) != 1:
            raise KeyError(f"{len(found)} of {name!r}; there are {', '.join(sorted(self._signals))}")
        return found[0]

    def peek(self, address: Any, shape: Any) -> Any:
        """What this memory, or the only one in this block, holds at an address."""
        fragments = (self._fragment, *(block for block, *_ in self._fragment.subfragments))
        found = [fragment for fragment in fragments if hasattr(fragment, "read_port")]
        if len(found) != 1:
            raise KeyError(f"{len(found)} memories")
        data = Signal(shape, name="peeked")
        found[0].read_port(domain="comb", addr=address, data=data, en=Const(1), transparent_for=())
        return data

    def state(self, name: str, machine: str = "fsm") -> Any:
        """1 where the block's state machine, by its name, is in this state."""
        return self[f"{machine}_state"] == self._fragment.generated[machine].encoding[name]


class ProofHarness:
    """A module with one block in it. Every input of the block is free until `assume` says more.

    There is no reset: the first step of a proof's base case is the state after configuration.

    Attributes
    ----------
    block: the component. inside: its elaborated self.
    m: the module, for logic that a proof needs; `sync` is the block's clock.
    covers: how many things are to be reached.
    """

    def __init__(self, block: Any):
        self.block = block
        self.m = Module()
        self.m.domains.sync = self._domain = ClockDomain("sync", reset_less=True)
        fragment = Fragment.get(block, None)
        self.m.submodules.block = fragment
        self.inside = Inside(fragment)
        self.covers = 0
        self._ghosts = 0
        self._settled: list[str] = []

    def rtlil(self) -> str:
        """The whole as Yosys reads it."""
        members = self.block.signature.flatten(self.block)
        values = (Value.cast(value) for _, member, value in members if member.flow == wiring.In)
        inputs = [
            value for value in values if isinstance(value, Signal) and len(value)
        ]  # not always_valid, always_ready
        text = str(rtlil.convert(self.m, name="top", ports=[self._domain.clk, *inputs]))
        for name in self._settled:
            text = re.sub(rf"attribute \\init .*\n(?=(?:\s*attribute .*\n)*\s*wire .*\\{name}\n)", "", text)
        return text

    # --- statements
    def always(self, *conditions: Any) -> None:
        """To be proved: these hold in every cycle."""
        for number, condition in enumerate(conditions):
            statement = Assert(condition, src_loc_at=1)
            file, line = statement.src_loc
            statement.src_loc = (f"{Path(file).name}[{number}]", line)
            self.m.d.comb += statement

    def assume(self, *conditions: Any) -> None:
        """The environment keeps to these in every cycle."""
        for condition in conditions:
            self.m.d.comb += Assume(condition, src_loc_at=1)

    def settled(self, register: Any, value: Any) -> None:
        """A register of an input that never changes has its value from the first cycle on: the input is set before."""
        self._settled.append(register.name)
        self.assume(same(register, value[: len(register)]))

    def cover(self, condition: Any) -> None:
        """To be shown: some run gets here."""
        self.covers += 1
        self.m.d.comb += Cover(condition, src_loc_at=1)

    # --- ghosts: signals of the proof alone
    def ghost(self, shape: Any, name: str, init: Any = None) -> Any:
        """A register that the proof drives itself."""
        self._ghosts += 1
        return Signal(shape, name=f"{name}_ghost_{self._ghosts}", init=init)

    def constant(self, shape: Any, name: str) -> Any:
        """Any value, the same in every cycle."""
        signal = self.ghost(shape, name)
        self.m.d.comb += Value.cast(signal).eq(AnyConst(len(Value.cast(signal))))
        return signal

    def anything(self, shape: Any, name: str) -> Any:
        """Any value, another in every cycle."""
        signal = self.ghost(shape, name)
        self.m.d.comb += Value.cast(signal).eq(AnySeq(len(Value.cast(signal))))
        return signal

    def hold(self, *inputs: Any) -> None:
        """These inputs never change."""
        for value in inputs:
            raw = Value.cast(value)
            self.m.d.comb += Assume(raw == AnyConst(len(raw)), src_loc_at=1)

    def past(self, value: Any, init: int = 0) -> Any:
        """The value one cycle earlier, `init` in the first."""
        raw = Value.cast(value)
        signal = self.ghost(raw.shape(), "past", init)
        self.m.d.sync += signal.eq(raw)
        return signal

    def ever(self, event: Any) -> Any:
        """1 from the cycle after the first `event` on."""
        signal = self.ghost(1, "ever")
        with self.m.If(event):
            self.m.d.sync += signal.eq(1)
        return signal

    def count(self, up: Any, down: Any = 0, bits: int = 16, init: int = 0, clear: Any = 0) -> Any:
        """The sum of `up` less that of `down`, modulo 2**bits, up to the cycle before; since the last `clear`."""
        signal = self.ghost(bits, "count", init)
        self.m.d.sync += signal.eq(Mux(clear, 0, signal + up - down))
        return signal

    def waiting(self, condition: Any, bits: int = 16) -> Any:
        """For how many cycles in a row, this one not counted, the condition has held."""
        return self.count(condition, bits=bits, clear=~Value.cast(condition).any())

    def within(self, condition: Any, cycles: int) -> Any:
        """The environment does not let this hold in so many cycles in a row. Returns in how many it has."""
        waited = self.waiting(condition)
        self.m.d.comb += [
            Assume(~(Value.cast(condition).any() & (waited >= cycles - 1)), src_loc_at=1),
            Assert(waited < cycles, src_loc_at=1),
        ]
        return waited


def implies(condition: Any, consequence: Any) -> Any:
    """1 where the condition is 0 or the consequence 1."""
    return ~Value.cast(condition).any() | Value.cast(consequence).any()


def same(a: Any, b: Any) -> Any:
    """1 where two payloads are equal in all bits."""
    return Value.cast(a).as_unsigned() == Value.cast(b).as_unsigned()
