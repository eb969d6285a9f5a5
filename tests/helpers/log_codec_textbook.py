"""Levels of logarithms by the book: decimals of 50 digits, a value at a time, a bit at a time; no code of the package.

`python -m tests.helpers.log_codec_textbook > tests/golden/log_codec.json` wrote the golden vectors.
"""

from __future__ import annotations

import json
import struct
from decimal import Decimal, getcontext
from itertools import pairwise

import numpy as np

getcontext().prec = 50


def magnitudes(bits, alpha):
    """Equation 6 at L + 1 evenly spaced q from 0 to 1, as decimals."""
    most, curve = 2 ** (bits - 1) - 1, Decimal(alpha)
    return [((1 + curve) ** (Decimal(k) / most) - 1) / curve for k in range(most + 1)]


def body(values, lengths, bits, alpha):
    """The bytes of a body; `lengths` of its groups."""
    levels = magnitudes(bits, alpha)
    thresholds = [np.float32(float((a + b) / 2)) for a, b in pairwise(levels)]
    scales, packed, begin = b"", b"", 0
    for length in lengths:
        group = [np.float32(v) for v in values[begin : begin + length]]
        begin += length
        scale = max(abs(v) for v in group)
        if scale < 2.0**-100:
            scale = np.float32(0)
        scales += struct.pack("<f", scale)
        text = ""
        for v in group:
            level = sum(abs(v) / scale > threshold for threshold in thresholds) if scale else 0
            code = len(levels) - 1 + (level if v >= 0 else -level)
            text = f"{code:0{bits}b}" + text
        packed += int(text, 2).to_bytes((len(text) + 7) // 8, "little")
    return scales + packed


def decoded(data, lengths, bits, alpha):
    """float32 values of a body."""
    levels, at, found = magnitudes(bits, alpha), 4 * len(lengths), []
    for group, length in enumerate(lengths):
        (scale,) = struct.unpack_from("<f", data, 4 * group)
        size = (length * bits + 7) // 8
        word = int.from_bytes(data[at : at + size], "little")
        at += size
        for place in range(length):
            k = (word >> (bits * place)) % 2**bits - (len(levels) - 1)
            magnitude = np.float32(float(levels[abs(k)]))
            found.append(np.float32(scale) * (magnitude if k >= 0 else -magnitude))
    return np.array(found, np.float32)


def golden():
    """A ragged vector of every width, with zeros, a group of nothing but zeros, and scales far apart."""
    rng = np.random.default_rng(2025)
    lengths = [5, 512, 3, 17]
    for bits in range(2, 9):
        values = rng.standard_normal(sum(lengths)).astype(np.float32)
        values[:5] *= np.float32(1e30)
        values[517:520] = 0
        values[520:] *= np.float32(1e-25)
        values[7], values[9] = 0, -values[8]
        yield {
            "bits": bits,
            "alpha": [10.0, 0.5, 255.0][bits % 3],
            "lengths": lengths,
            "values": values.astype("<f4").tobytes().hex(),
        }


if __name__ == "__main__":
    cases = list(golden())
    for case in cases:
        found = np.frombuffer(bytes.fromhex(case["values"]), "<f4")
        case["body"] = body(found, case["lengths"], case["bits"], case["alpha"]).hex()
    print(json.dumps(cases, indent=1))
