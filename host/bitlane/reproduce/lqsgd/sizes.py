"""How much is measured of LQ-SGD's claims."""

from __future__ import annotations

from ..claim import Size

FULL = Size("full", 3)
QUICK = Size("quick", 2)
