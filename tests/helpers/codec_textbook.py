"""A plain reference of the linear and sign codecs: one value at a time, in Python integers and float32 scalars.

It uses no code of the package; format and formulas are those of docs/compression.md. Run as a program, it writes
`tests/golden/codecs.json`: payloads that every implementation must produce, from inputs that expose mistakes.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Sequence

import numpy as np
from tests.helpers.places import GOLDEN

GOLDEN_FILE = GOLDEN / "codecs.json"
GROUP = 512
F = np.float32


def header(codec: int, bits: int, count: int, body: int) -> bytes:
    return b"BLGC" + struct.pack("<BBBBIIQQ", 1, codec, bits, 0, 0, 0, count, body)


def word(seed: int, place: int) -> int:
    """The random word of a place: lowbias32 of a count."""
    x = (place * 0x9E3779B9 + seed) % 2**32
    x = ((x ^ (x >> 16)) * 0x7FEB352D) % 2**32
    x = ((x ^ (x >> 15)) * 0x846CA68B) % 2**32
    return x ^ (x >> 16)


def cut(count: int) -> list[range]:
    """The groups of a vector."""
    return [range(begin, min(begin + GROUP, count)) for begin in range(0, count, GROUP)]


def stream(codes: Sequence[int], bits: int) -> bytes:
    """Codes side by side, the first in the lowest bits."""
    number = sum(code << (bits * place) for place, code in enumerate(codes))
    return number.to_bytes((len(codes) * bits + 7) // 8, "little")


def halves(numbers: list[F]) -> F:
    """The sum of 512, each half onto the other."""
    numbers = numbers + [F(0)] * (GROUP - len(numbers))
    while len(numbers) > 1:
        middle = len(numbers) // 2
        numbers = [low + high for low, high in zip(numbers[:middle], numbers[middle:], strict=True)]
    return numbers[0]


def quantized(value: F, scale: F, most: int, drawn: int | None) -> int:
    """Whole steps: to the nearest, ties to even, or with the upper half of a random word added."""
    inverse = F(most) / scale if scale else F(0)
    if drawn is None:
        return round(float(value * inverse))
    fixed = round(float(value * (inverse * F(2**16))))
    return min((fixed + (drawn >> 16)) // 2**16, most)


def each_width(bits: int | Sequence[int], groups: Sequence[range]) -> list[int]:
    return [bits] * len(groups) if isinstance(bits, int) else list(bits)


def encode(
    values: Sequence[F],
    groups: Sequence[range],
    widths: int | Sequence[int],
    residual: Sequence[F] | None,
    seed: int | None,
) -> tuple[bytes, list[F]]:
    """A body of signs (1 bit) or levels, and what it does not say of values plus residual."""
    whole = list(values) if residual is None else [v + r for v, r in zip(values, residual, strict=True)]
    scales, codes, left = [], b"", []
    for places, bits in zip(groups, each_width(widths, groups), strict=True):
        most = 2 ** (bits - 1) - 1
        group = [whole[place] for place in places]
        if bits == 1:
            step = halves([abs(value) for value in group]) / F(len(group))
            steps = [1 if value >= 0 else -1 for value in group]
            codes += stream([max(each, 0) for each in steps], 1)
        else:
            scale = max(abs(value) for value in group)
            scale = scale if scale >= F(2.0**-100) else F(0)
            step = scale / F(most)
            draws = [None if seed is None else word(seed, place) for place in places]
            steps = [quantized(value, scale, most, drawn) for value, drawn in zip(group, draws, strict=True)]
            codes += stream([each + most for each in steps], bits)
        scales.append(step)
        left += [value - F(each) * step for value, each in zip(group, steps, strict=True)]
    return struct.pack(f"<{len(scales)}f", *scales) + codes, left


def decode(body: bytes, groups: Sequence[range], widths: int | Sequence[int]) -> list[F]:
    """The values of a body."""
    at, found = 4 * len(groups), []
    for place, (places, bits) in enumerate(zip(groups, each_width(widths, groups), strict=True)):
        step = F(struct.unpack_from("<f", body, 4 * place)[0])
        size = (len(places) * bits + 7) // 8
        number = int.from_bytes(body[at : at + size], "little")
        codes = [(number >> (bits * place)) % 2**bits for place in range(len(places))]
        found += [F(2 * code - 1 if bits == 1 else code - (2 ** (bits - 1) - 1)) * step for code in codes]
        at += size
    return found


def golden_values() -> tuple[list[F], list[F]]:
    """Values and residuals of four groups, the last of 13: ordinary ones; ties and zeros; tiny and huge; a rest."""
    rng = random.Random(1)
    values = [F(rng.gauss(0, 1e-3)) for _ in range(GROUP)]
    values += [F(rng.randrange(-254, 255) / 2) for _ in range(GROUP - 4)] + [F(127), F(0), F(-0.0), F(-127)]
    values += [F(rng.choice([0, 1e-45, -1e-45, 1e-38, 2.0**-100, -1e30, 3e38])) for _ in range(GROUP)]
    values += [F(rng.choice([1e-45, -1e-40, 1e-33, -7e-31])) for _ in range(13)]
    residual = [F(rng.gauss(0, 1e-3)) for _ in range(2 * GROUP)] + [F(0)] * GROUP + [F(1e-31)] * 13
    return values, residual


def golden() -> dict[str, object]:
    """Inputs, and for each codec and width the payload and what is kept back."""
    values, residual = golden_values()
    cases = []
    for bits in range(1, 9):
        for kept, seed in ((None, None), (residual, None if bits == 1 else 2**32 - 5)):
            used = values[: 2 * GROUP] + values[3 * GROUP :] if bits == 1 else values  # 3e38 has no sum
            back = None if kept is None else kept[: 2 * GROUP] + kept[3 * GROUP :] if bits == 1 else kept
            body, left = encode(used, cut(len(used)), bits, back, seed)
            payload = header(2 if bits == 1 else 1, bits, len(used), len(body)) + body
            cases.append(
                {
                    "bits": bits,
                    "feedback": kept is not None,
                    "seed": seed,
                    "payload": payload.hex(),
                    "kept": hashlib.sha256(np.array(left, "<f4").tobytes()).hexdigest(),
                }
            )
    return {
        "about": "written by textbook.py; signs leave the third group out",
        "values": np.array(values, "<f4").tobytes().hex(),
        "residual": np.array(residual, "<f4").tobytes().hex(),
        "cases": cases,
    }


if __name__ == "__main__":
    GOLDEN_FILE.write_text(json.dumps(golden(), indent=1) + "\n")
