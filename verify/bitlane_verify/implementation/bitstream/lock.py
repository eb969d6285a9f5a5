"""The lock of the tool packages: `packages.json` has the file name and the SHA-256 of each package that decides bytes.

The distribution moves on, and other tools make other bitstreams. So `make toolchain` takes no package but that
of the lock. The libraries of the programs are not locked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from bitlane.errors import DeviceError

LOCK = Path(__file__).with_name("packages.json")
# Synthesis with its optimizer, the writer of bitstreams, its database, and nextpnr's database of the chip.
LOCKED = ("yosys", "yosys-abc", "prjxray", "prjxray-database", "nextpnr-himbaechel-xilinx-chipdb")
ARCHIVE = "https://snapshot.debian.org/binary/"
ACCEPT = "python -m bitlane_verify.implementation.bitstream.install --accept"


def read(lock: Path | None = None) -> dict[str, str]:
    """Return the SHA-256 of each locked package, by file name; by default those of `LOCK`."""
    digests: dict[str, str] = json.loads((lock or LOCK).read_text())
    return digests


def write(packages: Iterable[Path], lock: Path | None = None) -> None:
    """Write a lock of those `packages` that decide bytes; by default `LOCK`."""
    digests = {package.name: _sha256(package) for package in sorted(packages) if _kind(package.name) in LOCKED}
    (lock or LOCK).write_text(json.dumps(digests, indent=1) + "\n")


def packages_of_lock(packages: Iterable[Path], older: Path) -> list[Path]:
    """Return `packages` with the locked ones among them exactly as in the lock.

    Parameters
    ----------
    packages : iterable of Path
        What the distribution serves.
    older : Path
        Folder of packages of older versions; it need not exist.

    Raises
    ------
    DeviceError
        A package of the lock is in neither. The message says where to find it, and how to accept the new one.
    """
    served = {_kind(package.name): package for package in packages}
    for name, digest in read().items():
        kind = _kind(name)
        matches = [
            each for each in (served.get(kind), older / name) if each and each.is_file() and _sha256(each) == digest
        ]
        if not matches:
            instead = (
                f"{served[kind].name} with SHA-256 {_sha256(served[kind])}" if kind in served else "no such package"
            )
            raise DeviceError(
                f"the lock has {name} with SHA-256 {digest}, and the distribution serves {instead}: fetch {name} from "
                f"{ARCHIVE}{kind}/ into {older}, and run `make toolchain` again; or accept the new tools, which make "
                f"other bytes of every bitstream, with `{ACCEPT}`"
            )
        served[kind] = matches[0]
    return sorted(served.values())


def _kind(name: str) -> str:
    """Return the name of a package without version and architecture."""
    return name.partition("_")[0]


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
