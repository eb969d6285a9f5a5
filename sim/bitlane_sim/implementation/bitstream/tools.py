"""Find Yosys, nextpnr, and the programs and the database of project X-Ray."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import DeviceError
from bitlane.support.cache import cache_folder
from bitlane_sim.rtl.toolchain import run

PACKAGES = ("yosys", "nextpnr-himbaechel-xilinx", "prjxray", "prjxray-database")  # of Debian testing and sid
PROGRAMS = ("yosys", "nextpnr-himbaechel-xilinx", "xc7frames2bit", "bitread")
DATABASE = Path("share", "prjxray", "database", "zynq7")  # below /usr


@dataclass(frozen=True)
class Tools:
    """The programs, and the folder of the Zynq-7000 family in project X-Ray's database."""

    yosys: str
    nextpnr: str
    frames2bit: str
    bitread: str
    database: Path

    def versions(self) -> dict[str, str]:
        """Return the versions of Yosys and nextpnr; xc7frames2bit and bitread print none."""
        return {
            "yosys": run([self.yosys, "-V"]).strip(),
            "nextpnr": run([self.nextpnr, "--version"]).strip(),
        }


def installed_folder() -> Path:
    """Return the folder of `make toolchain` in the cache, which is structured like /usr."""
    return cache_folder() / "toolchain" / "usr"


def find(system: Path = Path("/usr")) -> Tools:
    """Return the tools of the system if complete, else those of `make toolchain`. Raises DeviceError without both."""
    there, ours = _programs(os.environ.get("PATH", os.defpath)), _programs(str(installed_folder() / "bin"))
    for folder, programs in ((system, there), (installed_folder(), ours)):
        if len(programs) == len(PROGRAMS) and (folder / DATABASE).is_dir():
            return Tools(
                yosys=programs["yosys"],
                nextpnr=programs["nextpnr-himbaechel-xilinx"],
                frames2bit=programs["xc7frames2bit"],
                bitread=programs["bitread"],
                database=folder / DATABASE,
            )
    missing = [name for name in PROGRAMS if name not in there] or [str(system / DATABASE)]
    raise DeviceError(
        f"a bitstream needs {', '.join(missing)}, not found: `make toolchain` fetches all from Debian, "
        f"or run `apt install {' '.join(PACKAGES)}` if the distribution has these packages"
    )


def _programs(path: str) -> dict[str, str]:
    """Return the paths of the programs on `path`."""
    return {name: found for name in PROGRAMS if (found := shutil.which(name, path=path))}
