"""Build nextpnr with a placer that knows where a chip has no logic: the source of Debian's package, and our patch.

The static placer of nextpnr 0.11.1 takes the area of the processing system, a fifth of an XC7Z020, for free. Its cells
are moved to the edges of this area afterwards, and their wires become half as long again. `dark_areas.patch` fills such
areas. nextpnr and the patch have the ISC license.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from bitlane.data.downloads import RemoteFile, download
from bitlane.errors import DataError, DeviceError
from bitlane.support.cache import cache_folder
from bitlane_sim.rtl.toolchain import run

VERSION = "0.11.1"
SOURCE = RemoteFile(
    f"http://deb.debian.org/debian/pool/main/n/nextpnr/nextpnr_{VERSION}+dfsg.orig.tar.xz",
    "a5a940d34671aedc1b4051c9dc5c6798de3e1d85954d36d9389abfc1c6d28c70",
)
PATCH = Path(__file__).with_name("dark_areas.patch")
NAME = "nextpnr-himbaechel"
NEEDED = ("cmake", "make", "g++", "patch")
LIBRARIES = (
    "libboost-dev",
    *(f"libboost-{library}-dev" for library in ("iostreams", "program-options", "thread")),
    "libeigen3-dev",
)
PACKAGES = " ".join((*NEEDED, *LIBRARIES))
# No fused multiply-add: the placement must not depend on the compiler's machine.
OPTIONS = (
    *("-DARCH=himbaechel", "-DHIMBAECHEL_UARCH=xilinx", "-DHIMBAECHEL_XILINX_DEVICES=", "-DBUILD_PYTHON=OFF"),
    *("-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-ffp-contract=off"),
)


def build(folder: Path, database: Path, jobs: int = 2) -> Path:
    """Fetch, patch and compile nextpnr in an empty folder. Return the program.

    Parameters
    ----------
    folder : Path
    database : Path
        The folder of project X-Ray's database: nextpnr's build asks for it.
    jobs : int
        Compilers at a time. One takes some ten minutes for all files.

    Raises
    ------
    DeviceError
        A program or a library is missing, the source cannot be fetched, or a step failed.
    """
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        raise DeviceError(f"nextpnr is compiled here, and {', '.join(missing)} is missing: apt install {PACKAGES}")
    sources = cache_folder() / "sources"
    advice = f"if Debian has another version now, fetch this one from snapshot.debian.org into {sources}"
    try:
        archive = download(SOURCE, sources, "building nextpnr", advice)
    except DataError as error:
        raise DeviceError(str(error)) from error
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    source = folder / f"nextpnr-{VERSION}"
    run(["patch", "-p1", "-i", str(PATCH)], directory=source)
    made = folder / "build"
    version = f"-DCURRENT_GIT_VERSION={VERSION}+{PATCH.stem}"
    try:
        run(["cmake", "-S", str(source), "-B", str(made), version, f"-DHIMBAECHEL_PRJXRAY_DB={database}", *OPTIONS])
    except DeviceError as error:
        raise DeviceError(f"{error}\nif a library is missing: apt install {PACKAGES}") from error
    run(["cmake", "--build", str(made), "--target", NAME, "--parallel", str(jobs)])
    return made / NAME
