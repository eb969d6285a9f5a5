"""Where Yosys, nextpnr and project X-Ray's programs and database are."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import DeviceError
from bitlane.support.cache import cache_folder
from bitlane_sim.rtl.toolchain import run

PACKAGES = ("yosys", "nextpnr-himbaechel-xilinx", "prjxray", "prjxray-database")  # Debian's, in testing and sid
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
        """What the programs say of themselves; xc7frames2bit and bitread say nothing."""
        return {
            "yosys": run([self.yosys, "-V"]).strip(),
            "nextpnr": run([self.nextpnr, "--version"]).strip(),
        }


def installed_folder() -> Path:
    """Where `make toolchain` puts them: a folder like /usr in the cache."""
    return cache_folder() / "toolchain" / "usr"


def find(system: Path = Path("/usr")) -> Tools:
    """The system's tools where they are complete, else those of `make toolchain`. DeviceError where neither are."""
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
        f"or `apt install {' '.join(PACKAGES)}` where there are such packages"
    )


def _programs(path: str) -> dict[str, str]:
    """Those of the programs that are on `path`."""
    return {name: found for name in PROGRAMS if (found := shutil.which(name, path=path))}
