"""What the tests of the host package share."""

from __future__ import annotations

import pytest

from bitlane.support import jit


@pytest.fixture(params=["numba", "python"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to run compiled loops."""
    if request.param == "python":
        monkeypatch.setattr(jit, "numba", lambda: None)
    elif jit.numba() is None:
        pytest.skip("numba is not installed")
