"""The codecs' loops, compiled by numba: imported only where numba is."""

from .decode import decode
from .encode import encode
from .select import select

__all__ = ["decode", "encode", "select"]
