"""The location of the cache folder."""

from pathlib import Path

import pytest

from bitlane.support.cache import cache_folder


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BITLANE_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("BITLANE_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "bitlane"
