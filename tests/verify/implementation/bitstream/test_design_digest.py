"""The digest of a design follows its gates, not its names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from tests.helpers import circuits
from tests.helpers.places import GOLDEN

from bitlane import overlays
from bitlane_verify.implementation.bitstream.design_digest import build_number, design_digest


class Sum(wiring.Component):
    """y = a + b one cycle later, with names of any kind."""

    def __init__(
        self, stored: str = "stored", inner: str = "inner", operation=int.__add__, width: int = 8, reset: int = 0
    ):
        self._names = stored, inner
        self._operation = operation
        self._reset = reset
        super().__init__({"a": In(width), "b": In(width), "y": Out(width + 1)})

    def elaborate(self, platform):
        m = Module()
        stored, inner = self._names
        kept = Signal(len(self.y), name=stored, init=self._reset)
        m.submodules[inner] = below = Module()
        below.d.sync += kept.eq(self.a - self.b if self._operation is int.__sub__ else self.a + self.b)
        m.d.comb += self.y.eq(kept)
        return m


def test_names_do_not_change_the_digest() -> None:
    assert design_digest(Sum()) == design_digest(Sum("a_longer_name", "zzz"))


class Difference(wiring.Component):
    """y = a - b, with inputs of any name."""

    def __init__(self, first: str, second: str):
        self.inputs = first, second
        super().__init__({first: In(8), second: In(8), "y": Out(9)})

    def elaborate(self, platform):
        m = Module()
        a, b = (getattr(self, name) for name in self.inputs)
        m.d.comb += self.y.eq(a - b)
        return m


class Around(wiring.Component):
    """y = a - b, or b - a, by a block whose inputs have any name."""

    def __init__(self, first: str, second: str, is_turned: bool = False):
        self._names, self._is_turned = (first, second), is_turned
        super().__init__({"a": In(8), "b": In(8), "y": Out(9)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Difference(*self._names)
        given = (self.b, self.a) if self._is_turned else (self.a, self.b)
        m.d.comb += [getattr(inner, name).eq(value) for name, value in zip(self._names, given, strict=True)]
        m.d.comb += self.y.eq(inner.y)
        return m


def test_names_of_ports_do_not_change_the_digest_and_connections_do() -> None:
    """Also if the port of a block has the name of the wire that is connected to it, or that of another one."""
    digest = design_digest(Around("m", "n"))
    assert digest == design_digest(Around("a", "b")) == design_digest(Around("p", "y_0"))
    assert digest != design_digest(Around("m", "n", is_turned=True))


@pytest.mark.parametrize("change", [{"operation": int.__sub__}, {"width": 9}, {"reset": 1}], ids=str)
def test_gates_change_the_digest(change: dict) -> None:
    assert design_digest(Sum()) != design_digest(Sum(**change))


def test_the_build_number_is_of_the_circuit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of the digest, or the number of the package's bitstream of this circuit."""
    digest = design_digest(Sum())
    assert f"{build_number(digest):08x}" == digest[:8]
    (tmp_path / "chip").mkdir()
    (tmp_path / "chip" / "manifest.json").write_text(json.dumps({"circuit": digest, "build": "0x0000002A"}))
    monkeypatch.setattr(overlays, "FOLDER", tmp_path)
    assert build_number(digest) == 42
    assert build_number(design_digest(Sum(width=9))) != 42


@pytest.mark.slow  # elaborates five accelerators
def test_five_builds_keep_their_circuits() -> None:
    golden = json.loads((GOLDEN / "circuits.json").read_text())
    if golden["amaranth"] != circuits.amaranth():
        pytest.skip(f"the golden file is of Amaranth {golden['amaranth']}, and {circuits.amaranth()} is installed")
    assert circuits.digests() == golden["circuits"]
