"""C and C++ files as a library for ctypes: built once by this machine's compiler, and stored in the cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .atomic import atomic_write
from .cache import cache_folder

# Each operation of floats is rounded on its own, and signed integers wrap. Nobody looks at the flags of floats'
# exceptions, which would keep a compiler from vector instructions.
FLAGS = ("-std=gnu99", "-ffp-contract=off", "-fno-trapping-math", "-fwrapv")
OPTIMIZE = ("-O3",)
LIBRARY_FLAGS = ("-fPIC", "-shared")
# Of machines whose vector instructions are an option, the best first: their names in /proc/cpuinfo, and the flags.
Vectors = dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]
AVX512, AVX512_FLAGS = (tuple(f"{prefix}avx512{part}" for part in ("f", "bw", "dq", "vl")) for prefix in ("", "-m"))
VECTORS: Vectors = {
    "x86_64": [(AVX512, AVX512_FLAGS), (("avx2",), ("-mavx2",))],
    "armv7l": [(("neon",), ("-mfpu=neon",))],
}
# Of machines with dot products of bytes, which compilers before gcc 11 and clang 12 lack in part.
BYTE_PRODUCTS: Vectors = {
    "x86_64": [
        ((*AVX512, "avx512_vnni"), (*AVX512_FLAGS, "-mavx512vnni")),
        (("avx2", "avx_vnni"), ("-mavx2", "-mavxvnni")),
    ],
    "aarch64": [(("asimddp",), ("-march=armv8.2-a+dotprod",))],
}
CPU_INFO = Path("/proc/cpuinfo")
TIMEOUT = 300  # seconds


@dataclass(frozen=True)
class Language:
    """A language: its name, the variable that names its compiler, the default, its options, the suffix of a file."""

    name: str
    variable: str
    compiler: str
    flags: tuple[str, ...]
    suffix: str


C = Language("C", "CC", "cc", FLAGS, ".c")
CPP = Language("C++", "CXX", "c++", ("-std=gnu++17",), ".cpp")

_logger = logging.getLogger(__name__)
_lock = threading.Lock()


class LibraryError(Exception):
    """A library cannot be built or loaded. The message is the reason, in one line."""


def load_library(
    sources: Sequence[Path],
    constants: Mapping[str, str],
    optimize: Sequence[str] = OPTIMIZE,
    vectors: Sequence[str] | None = None,
    language: Language = C,
    link: Sequence[str] = (),
) -> ctypes.CDLL:
    """Build C files, unless the cache folder has the library, and load it.

    The name of the library holds a digest of the source, the command, the version of the compiler and the kind of
    machine. Its last bytes are the digest of the others, because loading a damaged library can end the process.

    Parameters
    ----------
    sources : sequence of Path
        C99 or C++17, as one file in this order. The library has the name of the last.
    constants : dict of str
        Values of macros.
    optimize : sequence of str, default=("-O3",)
        Options of the compiler for speed.
    vectors : sequence of str, optional
        Options of the compiler for vector instructions. Default: `cpu_flags` of `VECTORS`.
    language : Language, default=C
        C or CPP.
    link : sequence of str, default=()
        Options for the linker, such as libraries.

    Returns
    -------
    ctypes.CDLL
        Its functions run without the interpreter's lock.

    Raises
    ------
    LibraryError
        There is no compiler, it fails, or the library cannot be written or loaded.
    """
    compiler = _compiler(language)
    chosen = cpu_flags() if vectors is None else vectors
    options = [*language.flags, *optimize, *LIBRARY_FLAGS, *chosen, *definitions(constants)]
    try:
        code = b"".join(path.read_bytes() for path in sources)
        version = _output([*compiler, "--version"], language)
        described = [code.decode(), *compiler, *options, *link, version, platform.machine()]
        digest = hashlib.sha256("\0".join(described).encode()).hexdigest()
        path = cache_folder() / "native" / f"{sources[-1].stem}-{digest[:20]}.so"
        with _lock:
            if not _is_intact(path):
                _build(code, [*compiler, *options], path, language, link)
            return ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"{error}") from error


def missing_compiler(language: Language = C) -> str:
    """Return why no library can be built on this machine, or ""; the compiler is looked for and not called."""
    name = _compiler(language)[0]
    return "" if shutil.which(name) else _no_compiler(name, language)


def definitions(constants: Mapping[str, str]) -> list[str]:
    """Return the options of a compiler that define macros."""
    return [f"-D{name}={value}" for name, value in constants.items()]


def cpu_flags(vectors: Vectors = VECTORS) -> list[str]:
    """Return the options for the best vector instructions of this processor in a table; none if it has none of them."""
    choices = vectors.get(platform.machine(), [])
    try:
        match = re.search(r"^(?:flags|Features)\s*:(.*)$", CPU_INFO.read_text(), re.MULTILINE)
    except OSError:
        return []
    found = set(match[1].split()) if match else set()
    return next((list(flags) for names, flags in choices if found.issuperset(names)), [])


def _compiler(language: Language) -> list[str]:
    return shlex.split(os.environ.get(language.variable) or language.compiler)


def _no_compiler(name: str, language: Language) -> str:
    return f"there is no {language.name} compiler {name}: install one, or set {language.variable}"


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


def _build(code: bytes, command: Sequence[str], path: Path, language: Language, link: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, f"source{language.suffix}"), Path(folder, "library.so")
        source.write_bytes(code)
        _output([*command, "-o", str(library), str(source), *link], language)
        content = library.read_bytes()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_bytes(content + hashlib.sha256(content).digest())
    except OSError as error:
        reason = f"{path.parent} cannot be written ({error.strerror}): set BITLANE_CACHE to a folder that can"
        raise LibraryError(reason) from error


def _output(command: Sequence[str], language: Language) -> str:
    """Return what a compiler prints."""
    name = shlex.join(command[:1])
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
    except FileNotFoundError:
        raise LibraryError(_no_compiler(name, language)) from None
    except subprocess.TimeoutExpired:
        raise LibraryError(f"the {language.name} compiler {name} ran longer than {TIMEOUT} seconds") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        errors = (line for line in lines if ": error:" in line and not line.startswith("collect2"))
        reason = next(errors, lines[0])  # what the linker says has no such word
        raise LibraryError(f"the {language.name} compiler {name} failed with status {done.returncode}: {reason}")
    return done.stdout
