"""A C file as a library that ctypes loads: built once by this machine's compiler, and stored in the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from .atomic import atomic_write
from .cache import cache_folder

# Each operation of floats is rounded on its own. Nobody looks at the flags of their exceptions, which would keep a
# compiler from vector instructions.
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-fno-trapping-math")
LIBRARY_FLAGS = ("-fPIC", "-shared")
# Of machines whose vector instructions are an option: their name in /proc/cpuinfo, and the flag.
VECTORS = {"x86_64": ("avx2", "-mavx2"), "armv7l": ("neon", "-mfpu=neon")}
CPU_INFO = Path("/proc/cpuinfo")
TIMEOUT = 300  # seconds

_logger = logging.getLogger(__name__)
_lock = threading.Lock()


class LibraryError(Exception):
    """A library cannot be built or loaded. The message is the reason, in one line."""


def load_library(c_file: Path, constants: Mapping[str, str]) -> ctypes.CDLL:
    """Build a C file, unless the cache folder has the library, and load it.

    The name of the library holds a digest of the source, the command, the version of the compiler and the kind of
    machine. Its last bytes are the digest of the others, because loading a damaged library can end the process.

    Parameters
    ----------
    c_file : Path
        C99.
    constants : dict of str
        Values of macros.

    Returns
    -------
    ctypes.CDLL
        Its functions run without the interpreter's lock.

    Raises
    ------
    LibraryError
        There is no compiler, it fails, or the library cannot be written or loaded.
    """
    compiler = shlex.split(os.environ.get("CC") or "cc")
    options = [*FLAGS, *LIBRARY_FLAGS, *cpu_flags(), *definitions(constants)]
    try:
        code = c_file.read_bytes()
        described = [code.decode(), *compiler, *options, _output([*compiler, "--version"]), platform.machine()]
        digest = hashlib.sha256("\0".join(described).encode()).hexdigest()
        path = cache_folder() / "native" / f"{c_file.stem}-{digest[:20]}.so"
        with _lock:
            if not _is_intact(path):
                _build(code, [*compiler, *options], path)
            return ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"{error}") from error


def definitions(constants: Mapping[str, str]) -> list[str]:
    """Return the options of a compiler that define macros."""
    return [f"-D{name}={value}" for name, value in constants.items()]


def cpu_flags() -> list[str]:
    """Return the options for the vector instructions of this processor."""
    name, flag = VECTORS.get(platform.machine(), ("", ""))
    try:
        match = re.search(r"^(?:flags|Features)\s*:(.*)$", CPU_INFO.read_text(), re.MULTILINE)
    except OSError:
        return []
    return [flag] if match and name in match[1].split() else []


def _is_intact(path: Path) -> bool:
    """Return whether a library lies there complete."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return False
    size = hashlib.sha256().digest_size
    if hashlib.sha256(content[:-size]).digest() == content[-size:]:
        return True
    _logger.warning("note: %s is damaged; rebuilding it", path)
    return False


def _build(code: bytes, command: Sequence[str], path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        c_file, library = Path(folder, "source.c"), Path(folder, "library.so")
        c_file.write_bytes(code)
        _output([*command, "-o", str(library), str(c_file)])
        content = library.read_bytes()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_bytes(content + hashlib.sha256(content).digest())
    except OSError as error:
        reason = f"{path.parent} cannot be written ({error.strerror}): set BITLANE_CACHE to a folder that can"
        raise LibraryError(reason) from error


def _output(command: Sequence[str]) -> str:
    """Return what a compiler prints."""
    name = shlex.join(command[:1])
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    except FileNotFoundError:
        raise LibraryError(f"there is no C compiler {name}: install one, or set CC") from None
    except subprocess.TimeoutExpired:
        raise LibraryError(f"the C compiler {name} ran longer than {TIMEOUT} seconds") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        errors = (line for line in lines if ": error:" in line and not line.startswith("collect2"))
        reason = next(errors, lines[0])  # what the linker says has no such word
        raise LibraryError(f"the C compiler {name} failed with status {done.returncode}: {reason}")
    return done.stdout
