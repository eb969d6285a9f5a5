"""`import bitlane.sparse` loads what its user needs, and says which extra is missing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.helpers.bare_python import run_bare

import bitlane.sparse

LIBRARIES = ("numba", "pyarrow", "scipy", "torch", "pandas")


def loaded(code: str) -> list[str]:
    """Modules that a fresh Python has loaded after `code`."""
    program = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_nothing_is_loaded_before_its_name_is_used() -> None:
    found = loaded("import bitlane.sparse")
    assert [name for name in found if name.startswith(("bitlane.sparse.", *LIBRARIES))] == []


def test_names_are_in_order_and_exist() -> None:
    pytest.importorskip("numba")
    assert sorted(bitlane.sparse.__all__) == sorted(bitlane.sparse._HOMES) == dir(bitlane.sparse)
    assert [name for name in bitlane.sparse.__all__ if not hasattr(bitlane.sparse, name)] == []
    with pytest.raises(AttributeError, match=r"module 'bitlane.sparse' has no attribute 'Bach'"):
        bitlane.sparse.Bach  # noqa: B018


def test_settings_and_estimators_are_made_without_libraries() -> None:
    """An estimator is described anywhere; what needs a library says so when it runs."""
    names = "FTRL, AdaGrad, SGD, Batch, ClickLog, ClickLogSettings, LRClassifier, FMClassifier"
    begin = f"from bitlane.sparse import {names}\n"
    made = run_bare(f"{begin}print(FTRL(), AdaGrad(), SGD(), ClickLogSettings(), FMClassifier(dim=4))")
    assert "FMClassifier(dim=4)" in made
    assert not {"numba", "torch"} & set(loaded("from bitlane.sparse import FMClassifier, FTRL"))
    for call, purpose, extra in (
        ("LRClassifier().fit([[1.0], [0.0]], [0, 1])", "LRClassifier needs numba", "bitlane[sparse]"),
        ("ClickLog()", "a click log needs numba", "bitlane[sparse]"),
        ("from bitlane.sparse import SparseModel", "bitlane.sparse.SparseModel needs numba", "bitlane[sparse]"),
    ):
        code = f"{begin}try:\n    {call}\nexcept Exception as error:\n    print(error)"
        printed = run_bare(code)
        assert purpose in printed and f"pip install '{extra}'" in printed
