"""The stages of a trial: the unit tests that reach a module, and the builds that can show its mutants."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.places import ROOT

from bitlane_verify.mutation.builds import BUILDS
from bitlane_verify.mutation.trial import Sandbox
from bitlane_verify.mutation.trial_plan import builds_of, closure, imports, is_hardware, own_test, unit_tests

DIGITS, OUTPUTS, TABLE, ENCODER, SHARDS, ONE_PORT, TWO_PORTS, WIDE = BUILDS
TESTED_ELSEWHERE = {  # modules without a file of tests at the mirrored path, and the first file that reaches each
    "common/signatures": "control/test_control",
    "engine": "test_accelerator",
    "datapath/model_core": "test_accelerator",
    "datapath/model_shard": "test_accelerator",
    "datapath/terms": "datapath/test_gradient",
    "encoder/beat_words": "encoder/test_core",
    "encoder/connections": "test_accelerator",
    "encoder/payloads": "encoder/test_core",
    "encoder/region_buffer": "encoder/test_encoder",
    "encoder/scale_table": "encoder/test_core",
    "encoder/sequencer": "encoder/test_core",
    "encoder/source_reader": "encoder/test_encoder",
    "encoder/words": "encoder/test_core",
    "zynq/downsizer": "zynq/test_port_pair",
    "zynq/hp_port": "zynq/test_port_pair",
    "zynq/port_guard": "zynq/test_memory_port",
    "zynq/upsizer": "zynq/test_port_pair",
    "zynq/ps7": "zynq/test_top",
}


def test_tests_of_a_block_come_first(sandbox: Sandbox) -> None:
    (sandbox.root / "hw" / "bitlane_hw" / "user.py").write_text("from .block import Block\n")
    (sandbox.root / "hw" / "bitlane_hw" / "inner").mkdir()
    (sandbox.root / "hw" / "bitlane_hw" / "inner" / "deep.py").write_text("from bitlane_hw.block import Block\n")
    (sandbox.root / "tests" / "hw" / "test_a.py").write_text("from tests.helpers.users import User\n")
    (sandbox.root / "tests" / "helpers").mkdir()
    (sandbox.root / "tests" / "helpers" / "users.py").write_text("from bitlane_hw.user import User\n")
    (sandbox.root / "tests" / "hw" / "inner").mkdir()
    (sandbox.root / "tests" / "hw" / "inner" / "test_deep.py").write_text("from bitlane_hw.inner import deep\n")
    found = unit_tests(sandbox)
    assert found["block"] == ["tests/hw/test_block.py", "tests/hw/inner/test_deep.py", "tests/hw/test_a.py"]
    assert found["user"] == ["tests/hw/test_a.py"]
    assert found["inner/deep"] == ["tests/hw/inner/test_deep.py"]


def test_every_module_has_unit_tests(tmp_path: Path) -> None:
    """The file at the mirrored path first; tests of a Zynq-7000's ports only for the modules in zynq."""
    found = {module: tests for module, tests in unit_tests(Sandbox(ROOT, tmp_path)).items() if is_hardware(module)}
    own = {module: f"tests/hw/{TESTED_ELSEWHERE.get(module, own_test(module))}.py" for module in found}
    assert TESTED_ELSEWHERE.keys() <= found.keys()
    assert all(own[module] in tests for module, tests in found.items())
    assert all(tests[0] == own[module] for module, tests in found.items() if module not in TESTED_ELSEWHERE)
    assert all(module.startswith("zynq/") or "/zynq/" not in test for module, tests in found.items() for test in tests)


def test_closure() -> None:
    assert closure({"a"}, {"a": {"b"}, "b": {"c", "a"}, "d": {"a"}}) == {"a", "b", "c"}
    assert {"x/a", "b/c"} <= set(imports("from .a import x\nfrom bitlane_hw.b.c import y", "x/y"))
    assert not set(imports("from bitlane.c import z\nimport numpy", "x/y"))
    assert "d" in set(imports("from bitlane_hw import d", ""))


def test_hardware() -> None:
    assert is_hardware("zynq/upsizer") and is_hardware("engine")
    assert not any(map(is_hardware, ("build_digest", "export/verilog", "zynq/__init__")))


def test_a_module_is_simulated_where_it_is_used() -> None:
    """On the accelerators that it makes; behind a Zynq-7000's ports when no accelerator has it."""
    reached = {
        DIGITS: {"engine", "dot"},
        OUTPUTS: {"engine", "dot"},
        TABLE: {"engine", "rounding", "table_dot"},
        ENCODER: {"engine", "dot", "encoder/core"},
        SHARDS: {"engine", "dot", "dot_sum"},
        ONE_PORT: {"engine", "dot", "axi3"},
        TWO_PORTS: {"engine", "dot", "axi3", "upsizer"},
        WIDE: {"engine", "dot", "upsizer", "two_ports"},
    }
    assert builds_of("engine", reached) == [DIGITS, OUTPUTS, TABLE, ENCODER, SHARDS]
    assert builds_of("dot", reached) == [DIGITS, OUTPUTS, ENCODER, SHARDS]
    assert builds_of("dot_sum", reached) == [SHARDS]
    assert builds_of("encoder/core", reached) == [ENCODER]
    assert builds_of("table_dot", reached) == [TABLE]
    assert builds_of("axi3", reached) == [ONE_PORT, TWO_PORTS]
    assert builds_of("upsizer", reached) == [TWO_PORTS, WIDE]
    assert builds_of("two_ports", reached) == [WIDE]
    with pytest.raises(RuntimeError, match="gone is in none of the builds"):
        builds_of("gone", reached)
