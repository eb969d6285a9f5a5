"""XRT for ctypes: `card.cpp`, built on this machine against the XRT that is installed.

XRT's own Python module, pyxrt, lacks `xrt::ip`, the only access to the registers of a kernel that the host controls
(`src/python/pybind11/src/pyxrt.cpp` of github.com/Xilinx/XRT: it binds device, kernel, run, bo and xclbin).
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitlane.errors import DeviceError
from bitlane.support.c_library import CPP, LibraryError, load_library, missing_compiler

SOURCE = Path(__file__).with_name("card.cpp")
VARIABLE = "XILINX_XRT"  # the variable that XRT's setup.sh sets
FOLDERS = ("/opt/xilinx/xrt", "/usr")
MESSAGE_BYTES = 512
ADDRESS, BYTES, OFFSET, INDEX = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int32
HANDLE, TEXT = ctypes.c_void_p, ctypes.c_char_p
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "open": (HANDLE, (TEXT, TEXT, TEXT)),
    "bank": (ctypes.c_bool, (HANDLE, TEXT, ctypes.POINTER(INDEX), ctypes.POINTER(BYTES))),
    "read": (ctypes.c_bool, (HANDLE, OFFSET, ctypes.POINTER(ctypes.c_uint32))),
    "write": (ctypes.c_bool, (HANDLE, OFFSET, ctypes.c_uint32)),
    "allocate": (HANDLE, (HANDLE, BYTES, INDEX, ctypes.POINTER(ADDRESS), ctypes.POINTER(HANDLE))),
    "sync": (ctypes.c_bool, (HANDLE, ctypes.c_bool)),
}
RELEASES = ("close", "free")


def xrt_folder() -> Path | None:
    """Return the folder of XRT, with `include/xrt/xrt_device.h`: that of XILINX_XRT, or of a package; None without."""
    named = os.environ.get(VARIABLE)
    folders = [named] if named else FOLDERS
    return next((Path(each) for each in folders if Path(each, "include/xrt/xrt_device.h").is_file()), None)


def missing() -> str:
    """Return why cards cannot be used on this machine, or ""."""
    if xrt_folder() is None:
        return f"XRT is not installed: install it and source its setup.sh, which sets {VARIABLE}"
    return missing_compiler(CPP)


@dataclass(frozen=True)
class Library:
    """The functions of `card.cpp`. Each raises DeviceError with the message of XRT."""

    functions: ctypes.CDLL

    def call(self, name: str, *arguments: Any) -> Any:
        """Call `bitlane_card_NAME` and return its result, a handle or true.

        Raises
        ------
        DeviceError
            XRT raised an exception: its step and its message, in one line.
        """
        message = ctypes.create_string_buffer(MESSAGE_BYTES)
        result = getattr(self.functions, f"bitlane_card_{name}")(*arguments, message)
        if not result:
            raise DeviceError(" ".join(message.value.decode(errors="replace").split()))
        return result

    def release(self, name: str, handle: int) -> None:
        """Call `bitlane_card_close` or `bitlane_card_free`, which cannot fail."""
        getattr(self.functions, f"bitlane_card_{name}")(handle)


def load() -> Library:
    """Return the library, built once for the installed XRT.

    Raises
    ------
    DeviceError
        XRT or the compiler is missing, or `card.cpp` cannot be built with them.
    """
    if reason := missing():
        raise DeviceError(f"device='xrt://...' cannot be used: {reason}")
    folder = xrt_folder()
    libraries = [str(path) for name in ("lib", "lib64") if (path := Path(f"{folder}", name)).is_dir()]
    options = [f"-I{folder}/include", f"-I{folder}/include/xrt", "-Wno-deprecated-declarations"]
    link = [*(f"{kind}{path}" for path in libraries for kind in ("-L", "-Wl,-rpath,")), "-lxrt_coreutil"]
    try:
        functions = load_library(
            [SOURCE], {"MESSAGE_BYTES": str(MESSAGE_BYTES)}, options, vectors=(), language=CPP, link=link
        )
    except LibraryError as error:
        raise DeviceError(f"device='xrt://...' cannot be built with the XRT in {folder}: {error}") from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(functions, f"bitlane_card_{name}")
        function.restype, function.argtypes = result, (*arguments, TEXT)
    for name in RELEASES:
        function = getattr(functions, f"bitlane_card_{name}")
        function.restype, function.argtypes = None, (HANDLE,)
    return Library(functions)
