"""Functions inside the C library of `bitlane.machine`, for each kind of vectors that this machine has."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers.compilers import VECTORS, has_compiler, limit_vectors
from tests.helpers.places import ROOT

from bitlane.machine.library import SOURCES, constants
from bitlane.support import c_library

int64, pointer = ctypes.c_int64, ctypes.c_void_p
TYPES = {
    "random_word": ([int64] * 3, ctypes.c_uint32),
    "round_half_up": ([int64] * 2, int64),
    "round_at_random": ([int64, ctypes.c_uint32, int64], int64),
    "plane_sums": ([pointer, pointer, int64, pointer, int64, pointer], None),
    "add_terms": ([pointer, pointer, int64, pointer, pointer], None),
}
Parts = dict[str, Callable[..., Any]]


@pytest.fixture(params=VECTORS)
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """The functions by name, for each kind of vectors."""
    if not has_compiler():
        pytest.skip("this machine has no C compiler")
    limit_vectors(monkeypatch, request.param)
    names = [path.stem for path in SOURCES]
    sources = SOURCES[: names.index("lanes") + 1]
    library = c_library.load_library([*sources, ROOT / "tests" / "helpers" / "machine_parts.c"], constants())
    found: Parts = {}
    for name, (arguments, result) in TYPES.items():
        function = library[f"test_{name}"]
        function.argtypes, function.restype = arguments, result  # type: ignore[attr-defined]
        found[name] = function
    return found
