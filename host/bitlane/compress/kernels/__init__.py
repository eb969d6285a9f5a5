"""The codecs' loops, compiled by numba: imported only where numba is."""

from .decode import decode
from .encode import encode

__all__ = ["decode", "encode"]
