"""Target of the entry point `pynq.overlays`: pynq looks for bitstreams in the first folder of this package's path."""

from __future__ import annotations

from .. import unpack_for_pynq

__path__ = [str(unpack_for_pynq())]
