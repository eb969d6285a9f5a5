"""The builds of the trials: what makes them, and why one is not elaborated."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import tempfile
import types
import warnings

import pytest
from amaranth.hdl import UnusedElaboratable
from tests.helpers.places import ROOT

from bitlane_hw.datapath import table_dot
from bitlane_verify.mutation.builds import BUILDS, modules_called, replace_names
from bitlane_verify.mutation.trial import PACKAGE, sources
from bitlane_verify.mutation.trial_plan import builds_of, is_hardware


def test_modules_that_make_a_build() -> None:
    """A module counts when one of its functions is called, not when it is imported."""
    BUILDS[0].component()
    error, modules = modules_called(BUILDS[0].elaboration_error)
    assert error == ""
    assert {"accelerator", "engine", "datapath/dot", "memory/axi", "common/payloads"} <= modules
    assert not {"datapath/table_dot", "datapath/rounding"} & modules
    assert not any(module.startswith("zynq/") for module in modules)


def test_importing_a_module_does_not_count() -> None:
    """In a process that has imported nothing yet, as for a build's reference. Yosys is left out."""
    code = (
        "import sys; from pathlib import Path; from amaranth.back import verilog; from amaranth.hdl import Fragment; "
        "verilog.convert = lambda top, **_: str(Fragment.get(top, None).prepare()); "
        "from bitlane_verify.mutation.builds import BUILDS, Build, ReferenceVerilog; Build.use = lambda *_: None; "
        "found = ReferenceVerilog(BUILDS[0], Path(sys.argv[1])); found.write(); print(*found.modules())"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert {"accelerator", "engine"} <= set(modules)
    assert not any(module.startswith(("zynq/", "encoder/")) for module in modules)


def test_an_elaboration_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise IndexError("no such lane")

    monkeypatch.setattr(table_dot.TableDot, "elaborate", wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)  # of the blocks behind the error, when they are deleted
        assert BUILDS[2].elaboration_error() == "IndexError: no such lane"
        gc.collect()


@pytest.mark.slow  # elaborates all builds
def test_every_module_makes_a_build() -> None:
    """Otherwise a campaign ends after all its tests without a mutant."""
    reached = {build: modules_called(build.elaboration_error)[1] for build in BUILDS}
    for module in filter(is_hardware, sources(ROOT / "hw" / PACKAGE)):
        assert builds_of(module, reached)


@pytest.mark.parametrize("test", sorted({test for build in BUILDS for test in build.tests}))
def test_the_tests_of_whole_builds_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in {
        node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
    }


def test_only_names_that_exist_are_replaced() -> None:
    module = types.ModuleType("module")
    module.CONFIGS = (1,)  # type: ignore[attr-defined]
    replace_names(module, CONFIGS=(2,))
    assert module.CONFIGS == (2,)
    with pytest.raises(AttributeError, match="TESTED"):
        replace_names(module, TESTED=(2,))
