"""Find Yosys, nextpnr, and the programs and the database of project X-Ray."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import DeviceError
from bitlane.support.cache import cache_folder
from bitlane_sim.rtl.toolchain import run

from .lock import LOCK, read

# Of Debian testing and sid. Of nextpnr only the chip database is used: the program is compiled with a patch.
PACKAGES = ("yosys", "nextpnr-himbaechel-xilinx", "prjxray", "prjxray-database")
NEXTPNR = "nextpnr-dark-areas"
DEBIAN_PROGRAMS = ("yosys", "xc7frames2bit", "bitread")
DATABASE = Path("share", "prjxray", "database", "zynq7")  # below /usr


@dataclass(frozen=True)
class BitstreamTools:
    """The programs, and the folder of the Zynq-7000 family in project X-Ray's database."""

    yosys: str
    nextpnr: str
    frames2bit: str
    bitread: str
    database: Path

    def packages(self) -> dict[str, str]:
        """Return the SHA-256 of each package that decides bytes, by file name; empty if it is unknown."""
        installed = self.database.parents[4] / LOCK.name
        return read(installed) if installed.is_file() else {}

    def versions(self) -> dict[str, str]:
        """Return the versions of Yosys and nextpnr; xc7frames2bit and bitread print none."""
        return {
            "yosys": run([self.yosys, "-V"]).strip(),
            "nextpnr": run([self.nextpnr, "--version"]).strip(),
        }


def installed_folder() -> Path:
    """Return the folder of `make toolchain` in the cache, which is structured like /usr."""
    return cache_folder() / "toolchain" / "usr"


def find() -> BitstreamTools:
    """Return the tools of `make toolchain`. Raises DeviceError if one is missing."""
    usr = installed_folder()
    missing = [name for name in (*DEBIAN_PROGRAMS, NEXTPNR) if not (usr / "bin" / name).exists()]
    if missing or not (usr / DATABASE).is_dir():
        raise DeviceError(f"a bitstream needs {', '.join(missing) or usr / DATABASE}, not found: run `make toolchain`")
    yosys, frames2bit, bitread = (str(usr / "bin" / name) for name in DEBIAN_PROGRAMS)
    return BitstreamTools(yosys, str(usr / "bin" / NEXTPNR), frames2bit, bitread, usr / DATABASE)
