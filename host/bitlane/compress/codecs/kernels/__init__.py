"""The codecs' loops, compiled by numba. Imported only when numba is installed."""

from .decode import decode
from .encode import encode
from .select import select

__all__ = ["decode", "encode", "select"]
