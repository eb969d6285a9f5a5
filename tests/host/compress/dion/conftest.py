"""Ranks as threads: a `Dion` takes the transport of its rank in place of a process group."""

from __future__ import annotations

import pytest


@pytest.fixture
def threads(monkeypatch):
    """Return a function that runs `work(transport)` on ranks that are threads of this process."""
    from bitlane.compress.collectives.transport import run_ranks_in_threads
    from bitlane.compress.dion import optimizer

    monkeypatch.setattr(optimizer, "TorchTransport", lambda group, timeout: group)
    return run_ranks_in_threads
