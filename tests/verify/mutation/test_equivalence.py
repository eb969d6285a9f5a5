"""What changes nothing is proved; what changes a value, at power-up or later, is not."""

from __future__ import annotations

import importlib
from pathlib import Path
from random import Random

import pytest

import bitlane_hw
from bitlane_verify.formal.runner import ProofTools
from bitlane_verify.mutation import record
from bitlane_verify.mutation.equivalence import ROOT, blocks_of, is_proved
from bitlane_verify.mutation.operators import Mutant, mutants
from bitlane_verify.mutation.trial import Sandbox, sources

SOURCES = sources(Path(bitlane_hw.__file__).parent)


def known(keys: set[record.Key]) -> list[Mutant]:
    return [mutant for name, source in SOURCES.items() for mutant in mutants(name, source) if mutant.key in keys]


def test_every_known_mutant_has_blocks() -> None:
    for mutant in known(set(record.known_equivalents())):
        names = blocks_of(mutant, SOURCES[mutant.module])
        assert names
        for name in names:
            module, _, kind = name.rpartition(".")
            assert hasattr(importlib.import_module("bitlane_hw." + module.replace("/", ".")), kind)
    assert record.proved_equivalents() <= set(record.known_equivalents())


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        ("m.If(o.ready | ~o.valid)", "m.If(~(o.valid & ~o.ready))", True),
        pytest.param("is_spare = Signal()", "is_spare = Signal(init=1)", False, marks=pytest.mark.slow),
        pytest.param("is_spare.eq(1)", "is_spare.eq(o.valid & ~i.valid)", False, marks=pytest.mark.slow),
    ],
)
def test_a_changed_block(old: str, new: str, equal: bool, tools: ProofTools, tmp_path: Path) -> None:
    module = "zynq/register_slice"
    source = SOURCES[module]
    start = source.encode().index(old.encode())
    mutant = Mutant(module, "RegisterSlice.elaborate", 0, "a change", start, start + len(old.encode()), new)
    sandbox = Sandbox(ROOT, tmp_path)
    (block,) = blocks_of(mutant, source)
    assert is_proved(block, sandbox.root / "hw", sandbox.install(mutant, "mutated"), tools) is equal


@pytest.mark.slow
def test_what_is_recorded_as_proved_is_proved(seed: int, tools: ProofTools, tmp_path: Path) -> None:
    """One of the mutants, another one in each run; the command proves all."""
    proved = known(record.proved_equivalents())
    assert len(proved) == len(record.proved_equivalents())
    mutant = Random(seed).choice(proved)
    sandbox = Sandbox(ROOT, tmp_path)
    mutated = sandbox.install(mutant, "mutated")
    for block in blocks_of(mutant, SOURCES[mutant.module]):
        assert is_proved(block, sandbox.root / "hw", mutated, tools), record.describe(mutant)
