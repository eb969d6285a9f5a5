"""Where the project, its golden data and the files of the helpers are."""

from __future__ import annotations

from pathlib import Path

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
GOLDEN = ROOT / "tests" / "golden"
