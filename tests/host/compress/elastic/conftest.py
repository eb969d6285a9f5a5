"""Ranks as threads: a `DiLoCo` takes the transport of its rank in place of a process group."""

from __future__ import annotations

import pytest


@pytest.fixture
def threads(monkeypatch):
    """Return a function that runs `work(transport)` on ranks that are threads of this process."""
    from bitlane.compress.collectives.transport import run_ranks_in_threads
    from bitlane.compress.local import diloco

    monkeypatch.setattr(diloco, "TorchTransport", lambda group, timeout: group)
    return run_ranks_in_threads
