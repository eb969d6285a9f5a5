"""Other transports give the weights of local parameters, and their processes end."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.sparse.other_transports import TRANSPORTS, filled_parameters

MODULES = {"pull, Ray actor": "ray", "pull, torch RPC": "torch"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSPORTS)
def test_weights_are_those_of_local_parameters(seed: int, name: str) -> None:
    pytest.importorskip(MODULES[name])
    keys = np.random.default_rng(seed).integers(0, 1 << 63, 3000, np.uint64)
    expected = filled_parameters(2, keys).pull(keys[::-1].copy())
    assert len(np.unique(expected)) > 5000
    with TRANSPORTS[name](2, keys) as pull:
        assert np.array_equal(pull(keys[::-1].copy()), expected)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, MODULES[name], None)
    with pytest.raises(BitlaneError, match=rf"bitlane\[{MODULES[name]}\]"), TRANSPORTS[name](1, np.zeros(1, np.uint64)):
        pass
