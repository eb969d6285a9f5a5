"""Networks. These tests run in an environment of their own (`make network`): torch is large."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    collect_ignore_glob = ["*"]
