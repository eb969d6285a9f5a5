"""Mutation: the changes, the trial of a small block's mutants, the sample, and the record."""

from __future__ import annotations

import ast
import itertools
import random
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

import bitlane_hw
from bitlane_sim.mutation import record, trial
from bitlane_sim.mutation.campaign import LEAST, Tried, campaign, sampled, shares
from bitlane_sim.mutation.ladder import closure, imported, reaching
from bitlane_sim.mutation.operators import Mutant, mutants
from bitlane_sim.mutation.trial import Sandbox, Stage, Verdict, run_tests, sources

SUM = '''"""A block of two sums, of which one goes nowhere."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def twos(number):
    count = 0
    while number > 0:
        number = number - 2
        count = count + 1
    return count


class Block(wiring.Component):
    a: In(3)
    b: In(3)
    total: Out(4)

    def elaborate(self, platform):
        m = Module()
        nothing = Signal(twos(6))
        m.d.comb += [self.total.eq(self.a + self.b), nothing.eq(self.a & self.b)]
        return m
'''
TEST = """
from amaranth.sim import Simulator

from bitlane_hw.block import Block


def test_sums():
    async def bench(ctx):
        for a in range(8):
            for b in range(8):
                ctx.set(block.a, a)
                ctx.set(block.b, b)
                assert ctx.get(block.total) == a + b

    block = Block()
    simulator = Simulator(block)
    simulator.add_testbench(bench)
    simulator.run()
"""


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants("block", source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a + b", ["`a + b` became `a - b`"]),
        ("x = a & ~b", ["`a & ~b` became `a | ~b`", "`~b` became `b`"]),
        ("x = a << b", ["`a << b` became `a >> b`"]),
        ("x = a < b", ["`a < b` became `a <= b`"]),
        ("x = a == b", ["`a == b` became `a != b`"]),
        ("x = Mux(a, b, c)", ["`Mux(a, b, c)` became `Mux(a, c, b)`"]),
        ("x = a[3]", ["`3` became `4` in `a[3]`", "`3` became `2` in `a[3]`"]),
        ("x = a.any()", ["`a.any()` became `a.all()`"]),
        ("x = a.as_signed()", ["`a.as_signed()` became `a.as_unsigned()`"]),
        ("m.d.sync += [a.eq(b), c.eq(d)]", ["dropped `a.eq(b)`", "dropped `c.eq(d)`"]),
        ("m.d.comb += a.eq(b)", ["dropped `a.eq(b)`"]),
        ("m.next = 'A'", ["dropped `m.next = 'A'`"]),
        ("with m.If(a):\n    pass", ["`a` always true", "`a` inverted"]),
        ("x = Signal(24)", ["`24` a bit narrower"]),
        ("x = delay(m, a, n, 'a')", ["`n` became `n + 1`", "`n` became `n - 1`"]),
        ("class A:\n    a: unsigned(5)", ["`5` a bit narrower in a"]),
        ('def f():\n    """1 + 1"""\n    raise ValueError(1 + 1)', []),
    ],
)
def test_changes(source: str, expected: list[str]) -> None:
    assert changes(source) == expected


def test_changes_of_the_rtl(seed: int) -> None:
    """Each makes another program, and has a key of its own."""
    for name, source in sources(Path(bitlane_hw.__file__).parent).items():
        found = mutants(name, source)
        assert len({mutant.key for mutant in found}) == len(found)
        for mutant in random.Random(seed).sample(found, min(5, len(found))):
            assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source)), mutant


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """A project of one block and its test."""
    project = tmp_path / "from"
    for name, text in (("hw/bitlane_hw/__init__.py", ""), ("hw/bitlane_hw/block.py", SUM)):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "tests" / "hw").mkdir(parents=True)
    (project / "tests" / "hw" / "test_block.py").write_text(TEST)
    (project / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n")
    return Sandbox(project, tmp_path / "to")


def verdicts(sandbox: Sandbox, wanted: list[str]) -> dict[str, Verdict]:
    """How the trials of some changes of the block end, two at a time."""

    def tested(mutant: Mutant, folder: Path) -> Sequence[Stage]:
        def run() -> Verdict | None:
            failed, _ = run_tests(sandbox.root, ["tests/hw/test_block.py"])
            return Verdict("killed", failed) if failed else None

        return [Stage("unit", run, 0.0)]

    found = [mutant for mutant in mutants("block", SUM) if mutant.change in wanted]
    assert len(found) == len(wanted)
    done = campaign(sandbox, [(mutant, iter(())) for mutant in found], tested, 2, lambda tried: None)
    return {tried.mutant.change: tried.verdict for tried in done}


def test_trials(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shows is killed, what does not survives, and what does not end is stopped."""
    monkeypatch.setattr(trial, "LEAST_SECONDS", 2.0)
    shows, hidden, endless = (
        "`self.a + self.b` became `self.a - self.b`",
        "`self.a & self.b` became `self.a | self.b`",
        "`number - 2` became `number + 2`",
    )
    found = verdicts(sandbox, [shows, hidden, endless])
    assert found[shows] == Verdict("killed", "tests/hw/test_block.py::test_sums")
    assert found[hidden] == Verdict("survived")
    assert found[endless] == Verdict("killed", "unit: no end")
    assert sandbox.sources()["block"] == SUM


def test_a_broken_trial_is_no_verdict(sandbox: Sandbox) -> None:
    (mutant, *_) = mutants("block", SUM)

    def broken(mutant: Mutant, folder: Path) -> Sequence[Stage]:
        raise OSError("no space left")

    with pytest.raises(RuntimeError, match="no space left"):
        campaign(sandbox, [(mutant, iter(()))], broken, 1, lambda tried: None)


@pytest.mark.parametrize("result", ["refused", "same"])
def test_one_that_is_no_mutant_gives_its_place_away(sandbox: Sandbox, result: str) -> None:
    first, second, third, *_ = mutants("block", SUM)

    def stages(mutant: Mutant, folder: Path) -> Sequence[Stage]:
        return [Stage("only", lambda: Verdict(result if mutant != third else "killed"))]

    done = campaign(sandbox, [(first, iter([second, third]))], stages, 1, lambda tried: None)
    assert [tried.mutant for tried in done] == [first, second, third]


def test_tests_of_a_block_come_first(sandbox: Sandbox) -> None:
    (sandbox.root / "hw" / "bitlane_hw" / "user.py").write_text("from .block import Block\n")
    (sandbox.root / "hw" / "bitlane_hw" / "inner").mkdir()
    (sandbox.root / "hw" / "bitlane_hw" / "inner" / "deep.py").write_text("from bitlane_hw.block import Block\n")
    (sandbox.root / "tests" / "hw" / "test_a.py").write_text("from tests.helpers.users import User\n")
    (sandbox.root / "tests" / "helpers").mkdir()
    (sandbox.root / "tests" / "helpers" / "users.py").write_text("from bitlane_hw.user import User\n")
    (sandbox.root / "tests" / "hw" / "inner").mkdir()
    (sandbox.root / "tests" / "hw" / "inner" / "test_deep.py").write_text("from bitlane_hw.inner import deep\n")
    found = reaching(sandbox)
    assert found["block"] == ["tests/hw/test_block.py", "tests/hw/inner/test_deep.py", "tests/hw/test_a.py"]
    assert found["user"] == ["tests/hw/test_a.py"]
    assert found["inner/deep"] == ["tests/hw/inner/test_deep.py"]


def test_closure() -> None:
    assert closure({"a"}, {"a": {"b"}, "b": {"c", "a"}, "d": {"a"}}) == {"a", "b", "c"}
    assert {"x/a", "b/c"} <= set(imported("from .a import x\nfrom bitlane_hw.b.c import y", "x/y"))
    assert not set(imported("from bitlane.c import z\nimport numpy", "x/y"))
    assert "d" in set(imported("from bitlane_hw import d", ""))


@pytest.mark.parametrize("count", [20, 57, 200, 10_000])
def test_shares(count: int) -> None:
    sizes = {"small": 3, "middle": 40, "large": 300}
    found = shares(sizes, count)
    assert sum(found.values()) == min(count, 343)
    assert all(min(size, LEAST) <= found[name] <= size for name, size in sizes.items())
    assert found["large"] >= found["middle"] >= found["small"]


def test_sample(seed: int) -> None:
    """The same for a seed, without repetition, another for another seed."""
    found = {name: mutants(name, SUM) for name in ("a", "b")}
    first, again, other = ([m for m, _ in sampled(found, 20, s)] for s in (seed, seed, seed + 1))
    assert first == again != other
    assert len(set(first)) == 20


def test_record(tmp_path: Path) -> None:
    """The log gives back what it was told; the page counts, and tells equivalent mutants apart."""
    made = itertools.islice(mutants("block", SUM), 5)
    results = ("killed", "survived", "survived", "refused", "same")
    done = [Tried(mutant, Verdict(result)) for mutant, result in zip(made, results, strict=True)]
    log = tmp_path / "log"
    record.begin(log, 7)
    record.append(log, Tried(done[0].mutant, Verdict("survived")))  # before it was tried again
    for tried in done:
        record.append(log, tried)
    assert record.logged(log) == (7, done)
    found = record.summary(7, done, {done[2].mutant.key: "it goes nowhere"})
    assert (found.killed, len(found.survivors), found.rate) == (1, 1, 0.5)
    page = record.markdown(found, ["block"], date(2026, 1, 2))
    assert "2026-01-02, seed 7: 1 of 2 mutants killed (50.0 %)" in page
    assert "| block | 2 | 1 | 1 |" in page
    assert f"- {record.where(done[1].mutant)}\n" in page
    assert f"- {record.where(done[2].mutant)}: it goes nowhere\n" in page


def test_known_equivalents_are_mutants() -> None:
    """Every entry of the file is a change that there is."""
    folder = Path(bitlane_hw.__file__).parent
    keys = {mutant.key for name, source in sources(folder).items() for mutant in mutants(name, source)}
    assert record.known_equivalents().keys() <= keys
    assert all(record.known_equivalents().values())
