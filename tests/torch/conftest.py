"""What needs torch: networks, gradient compression. In an environment of its own (`make torch`), as torch is large."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    collect_ignore_glob = ["*test_*.py"]
