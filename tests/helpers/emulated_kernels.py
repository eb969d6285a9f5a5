"""The encoder's kernels in C, compiled for another processor and run by an emulator: the seam of `Kernels`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tests.helpers.places import ROOT

from bitlane.contract.layout import CHUNK
from bitlane.quantization.c_kernels import CONSTANTS, SOURCE, VALUE_TYPES, Kernels
from bitlane.support.c_library import FLAGS, OPTIMIZE, definitions

DRIVER = ROOT / "tests" / "helpers" / "kernels_driver.c"


def build_driver(compiler: Sequence[str], flags: Sequence[str], path: Path) -> None:
    """Compile the kernels with their driver as a program that needs no other file."""
    options = [
        *FLAGS,
        *OPTIMIZE,
        *flags,
        "-static",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{SOURCE.parent}",
        *definitions(CONSTANTS),
    ]
    done = subprocess.run([*compiler, *options, "-o", str(path), str(DRIVER)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def emulated_kernels(command: Sequence[str], pointer_bytes: int) -> Kernels:
    """The kernels as a program: `command` runs it, for a processor whose pointers have so many bytes."""
    return Kernels(_kernel(command, pointer_bytes, False), _kernel(command, pointer_bytes, True))


def _kernel(command: Sequence[str], pointer_bytes: int, draws: bool) -> Callable[..., None]:
    def encode(X, mapped, runs, of_rows, masks, offsets, target) -> None:
        features, shape = len(mapped.columns), (len(of_rows) > 0, len(masks))
        padding = (0, -features % CHUNK)
        sizes = (
            X.itemsize,
            features,
            mapped.base_bits,
            len(runs),
            *shape,
            target.stride,
            target.words.size,
            pointer_bytes,
        )
        arrays = (
            np.array([draws, VALUE_TYPES.index(X.dtype), *X.shape, *sizes], np.int64),
            X,
            np.pad(mapped.multipliers, padding),
            np.pad(mapped.offsets, padding),
            runs.astype(np.int64),
            of_rows,
            masks,
            np.pad(offsets, padding),
            target.row_offsets.astype(np.int64),
            target.words,
        )
        done = subprocess.run(command, input=b"".join(each.tobytes() for each in arrays), capture_output=True)
        assert done.returncode == 0, (done.returncode, done.stderr)
        target.words[:] = np.frombuffer(done.stdout, np.uint64).reshape(target.words.shape)

    return encode
