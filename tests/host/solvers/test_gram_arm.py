"""The Gram matrix's C code for 64-bit Arm, in an emulator, where this machine has a compiler for it."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bitlane.solvers.gram import CONSTANTS, SOURCE
from bitlane.support.c_library import BYTE_PRODUCTS, FLAGS, OPTIMIZE, definitions

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"  # of Debian and Ubuntu
DRIVER = Path(__file__).parents[2] / "helpers" / "gram_driver.c"


@pytest.mark.skipif(not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason="no compiler or emulator for Arm")
@pytest.mark.parametrize("flags", [BYTE_PRODUCTS["aarch64"][0][1], ()], ids=["dot products", "plain"])
def test_products_on_arm(seed: int, tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = tmp_path / "gram"
    options = [*FLAGS, *OPTIMIZE, *flags, *definitions(CONSTANTS), "-static", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([COMPILER, *options, "-o", str(program), str(SOURCE), str(DRIVER)], check=True)
    random = np.random.default_rng(seed)
    for rows, columns, low in ((1, 1, -128), (1100, 60, -128), (515, 97, -8), (2048, 48, 127)):
        codes = random.integers(low, 128 if low in (-128, 127) else -low, (rows, columns)).astype(np.int8)
        message = np.array(codes.shape, "<i4").tobytes() + codes.tobytes()
        done = subprocess.run([EMULATOR, str(program)], input=message, capture_output=True, check=True, timeout=60)
        width = -(-columns // int(CONSTANTS["PANEL"])) * int(CONSTANTS["PANEL"])
        found = np.frombuffer(done.stdout, "<i8").reshape(width, width)[:columns, :columns]
        wide = codes.astype(np.int64)
        assert (np.triu(found) == np.triu(wide.T @ wide)).all()
