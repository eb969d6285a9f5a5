"""C compilers: the machine's, broken ones, and one for Arm with the emulator that runs its programs."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from bitlane.support import c_library
from bitlane.support.c_library import cpu_flags

VECTORS = ("best", "avx2", "plain")  # the best of this machine, AVX2, and those of every machine of its kind
ARM_CC = "arm-linux-gnueabihf-gcc"  # of Debian and Ubuntu; ARM_CC names another, with its options
ARM_EMULATORS = ("qemu-arm", "qemu-arm-static")  # QEMU_ARM names another


def has_compiler() -> bool:
    """Whether this machine has a C compiler where the package looks for it."""
    return shutil.which(shlex.split(os.environ.get("CC") or "cc")[0]) is not None


def limit_vectors(monkeypatch: pytest.MonkeyPatch, vectors: str) -> None:
    """Build with some vector instructions of `VECTORS` instead of the best; skip what this machine lacks."""
    if vectors == "avx2":
        if "-mavx2" not in cpu_flags() and "-mavx512f" not in cpu_flags():
            pytest.skip("this machine has no AVX2")
        monkeypatch.setattr(c_library, "cpu_flags", lambda: ["-mavx2"])
    elif vectors == "plain":
        monkeypatch.setattr(c_library, "cpu_flags", lambda: [])


def script_compiler(folder: Path, lines: str) -> str:
    """Write a compiler that answers `--version` and does what a shell script says otherwise. `$out` is its output."""
    path = folder / "compiler"
    find_out = 'for each; do [ "$last" = -o ] && out="$each"; last="$each"; done'
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo 1.0 && exit 0\n{find_out}\n{lines}\n')
    path.chmod(0o755)
    return str(path)


def arm_compiler() -> list[str] | None:
    """The command of a C compiler for 32-bit Arm, or None."""
    command = shlex.split(os.environ.get("ARM_CC") or ARM_CC)
    return command if shutil.which(command[0]) else None


def arm_emulator() -> str | None:
    """The program that runs a program for 32-bit Arm, or None."""
    named = os.environ.get("QEMU_ARM")
    return next((found for name in ([named] if named else ARM_EMULATORS) if (found := shutil.which(name))), None)
