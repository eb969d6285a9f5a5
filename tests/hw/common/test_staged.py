"""Values that carry their stage: expressions of random pipelines against integers, and mixes of stages refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Const, Module, Signal
from amaranth.lib import data
from amaranth.sim import Simulator

from bitlane_hw.common.staged import Staged, StageError, mux, steady, together

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")  # modules that are refused

BITS = 16
OPERATORS = {
    operator.and_: operator.and_,
    operator.or_: operator.or_,
    operator.xor: operator.xor,
    operator.add: operator.add,
    operator.lt: operator.lt,
    operator.ge: operator.ge,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}


def test_random_pipelines(seed: int) -> None:
    """In each stage an expression equals that of the integers which entered so many cycles earlier."""
    rng = Random(seed)
    m = Module()
    m.domains.sync = ClockDomain()  # also where nothing is registered
    given = [Signal(BITS, name=f"given_{i}") for i in range(2)]
    setting = Signal(BITS)
    nodes: list[tuple[Staged, Callable[[list[int], int], int]]] = [
        (Staged(given[0], 0), lambda item, _: item[0]),
        (Staged(given[1], 0), lambda item, _: item[1]),
        (steady(setting), lambda _, steady_value: steady_value),
    ]
    for i in range(12):
        (a, value_a), (b, value_b) = rng.choices(nodes, k=2)
        if a.stage is None:
            continue
        stage = max(a.stage, b.stage or 0)
        later_a = a.until(m, stage, f"a_{i}")
        later_b = b if b.stage is None else b.until(m, stage, f"b_{i}")
        function = rng.choice([*OPERATORS])
        node = function(later_a, later_b)
        assert node.stage == stage
        if rng.random() < 0.5:
            node = node.registered(m, f"node_{i}")
        nodes.append((node, lambda item, s, f=function, x=value_a, y=value_b: int(f(x(item, s), y(item, s)))))
    items = [[rng.getrandbits(BITS) for _ in given] for _ in range(40)]
    constant = rng.getrandbits(BITS)
    outputs = []
    for i, (node, _) in enumerate(nodes):
        output = Signal(BITS + 12, name=f"output_{i}")
        m.d.comb += output.eq(node.at(node.stage or 0))
        outputs.append(output)

    async def bench(ctx: Any) -> None:
        ctx.set(setting, constant)
        for cycle, item in enumerate(items):
            for signal, value in zip(given, item, strict=True):
                ctx.set(signal, value)
            for output, (node, expected) in zip(outputs, nodes, strict=True):
                stage = node.stage or 0
                if cycle >= stage:
                    assert ctx.get(output) == expected(items[cycle - stage], constant)
            await ctx.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_stages_do_not_mix(seed: int) -> None:
    rng = Random(seed)
    first, other = rng.sample(range(9), 2)
    a, b = Staged(Signal(4, name="a"), first), Staged(Signal(4, name="b"), other)
    for function in OPERATORS:
        with pytest.raises(StageError, match=f"stage {first}.*stage {other}"):
            function(a, b)
        assert function(a, steady(Signal(4))).stage == function(a, 3).stage == function(a, Const(3)).stage == first
        assert function(a, b.seen_in(first)).stage == first
    with pytest.raises(StageError, match="different stages"):
        mux(a, b, 0)
    with pytest.raises(StageError, match=f"used in stage {other}"):
        a.at(other)
    late, early = (a, other) if first > other else (b, first)
    with pytest.raises(StageError, match="before it is valid"):
        late.until(Module(), early, "late")


def test_a_plain_value_has_no_stage() -> None:
    """A value without a stage can meet a staged one on neither side of an operator."""
    staged, plain = Staged(Signal(4), 1), Signal(4, name="plain")
    for function in OPERATORS:
        with pytest.raises(TypeError, match="plain"):
            function(staged, plain)
        with pytest.raises(TypeError):
            function(plain, staged)
    with pytest.raises(TypeError, match="plain"):
        together(lambda *operands: operands, staged, data.View(data.StructLayout({"x": 4}), plain))
    with pytest.raises(TypeError):
        plain.eq(staged)


def test_settings_need_no_register() -> None:
    setting = steady(Signal(4))
    for use in (
        lambda: setting.registered(Module(), "late"),
        lambda: setting.until(Module(), 2, "late"),
        lambda: setting.seen_in(2),
    ):
        with pytest.raises(StageError, match="the same in all stages"):
            use()
    assert (setting + 1).stage is None


def test_views_keep_their_layout() -> None:
    layout = data.StructLayout({"x": 4, "y": 2})
    view = Staged(Signal(layout), 0).until(Module(), 3, "view")
    assert len(view["y"].at(3)) == 2
