"""Install the bitstream tools: `make toolchain`.

Debian's packages, those of the lock, are unpacked into a folder of the cache and run there with their own libraries;
nextpnr is compiled from Debian's source with a patch. `--accept` takes the packages that Debian serves now, and writes
them to the lock. Nothing is installed on the machine, no root is needed, and an interrupted attempt is
not used.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bitlane.errors import BitlaneError, DeviceError
from bitlane.support.cache import cache_folder
from bitlane_sim.rtl.toolchain import run

from . import lock, nextpnr, tools
from .tools import DATABASE, DEBIAN_PROGRAMS, NEXTPNR, PACKAGES

SUITE = "deb [signed-by={keyring}] http://deb.debian.org/debian sid main\n"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NEEDED = {"apt-get": "apt", "dpkg-deb": "dpkg"}
# Read after the settings of the machine: its proxies are used, its hooks are not.
SETTINGS = """\
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Default-Release;
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::preferences "/dev/null";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
"""
# /proc/self/exe is then the loader. Yosys looks for its files beside it.
LOADER = "ld.so"
WRAPPER = """\
#!/bin/sh
usr=$(cd "$(dirname "$0")/.." && pwd)
PYTHONHOME=$usr exec "$usr/bin/{loader}" --library-path "$usr/{libraries}" --argv0 "$0" "$usr/bin/{program}.elf" "$@"
"""


def install(accept: bool = False) -> Path:
    """Fetch and unpack the packages with all dependencies. Return the folder, which replaces an existing one.

    With `accept`, the packages that Debian serves become the lock. Raises DeviceError if the machine has no apt or no
    key of Debian's archive, if Debian serves other packages than the lock has, or if a step fails.
    """
    if missing := [package for program, package in NEEDED.items() if shutil.which(program) is None]:
        raise DeviceError(f"the toolchain is installed from Debian's packages, and this machine has no {missing[0]}")
    if not KEYRING.exists():
        raise DeviceError(f"{KEYRING}, which verifies Debian's packages, is missing: apt install {KEYRING.stem}")
    target = tools.installed_folder().parent
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f"{target.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as name:
        root = Path(name, "root")
        packages = _fetched(Path(name))
        if not accept:
            packages = lock.packages_of_lock(packages, cache_folder() / "sources")
        for package in packages:
            run(["dpkg-deb", "-x", str(package), str(root)])
        usr = root / "usr"
        for program in (*DEBIAN_PROGRAMS, "yosys-abc"):
            _wrap(usr, program)
        built = nextpnr.build(Path(name, "nextpnr"), usr / DATABASE.parent)
        shutil.copy2(built, usr / "bin" / NEXTPNR)  # finds the chip database of the package beside it
        lock.write(packages, root / lock.LOCK.name)
        shutil.rmtree(target, ignore_errors=True)
        root.rename(target)
        if accept:
            lock.write(packages)
    return target


def _fetched(folder: Path) -> list[Path]:
    """Return the packages and dependencies that apt selects for an empty machine."""
    for below in ("state/lists/partial", "cache/archives/partial"):
        (folder / below).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(SUITE.format(keyring=KEYRING))
    (folder / "apt.conf").write_text(SETTINGS.format(folder=folder))
    apt = ["apt-get", "--quiet", "--config-file", str(folder / "apt.conf")]
    run([*apt, "update"])
    run([*apt, "--yes", "--download-only", "install", *PACKAGES])
    return sorted(folder.glob("cache/archives/*.deb"))


def _wrap(usr: Path, program: str) -> None:
    """Replace a program by a script that starts it with its own libraries."""
    (libraries,) = {path.parent for path in usr.glob("lib/*/ld-linux*.so.*")}
    if not (usr / "bin" / LOADER).exists():
        shutil.copy2(next(libraries.glob("ld-linux*.so.*")), usr / "bin" / LOADER)
    script = usr / "bin" / program
    script.rename(script.with_name(f"{program}.elf"))
    script.write_text(WRAPPER.format(loader=LOADER, libraries=libraries.relative_to(usr), program=program))
    script.chmod(0o755)


def main(argv: Sequence[str] | None = None) -> int:
    """Install the tools if they are missing or not those of the lock. Return exit status 1 if that fails."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_verify.implementation.bitstream.install", description=__doc__
    )
    parser.add_argument("--accept", action="store_true", help="take what Debian serves now, and write the lock")
    accept = parser.parse_args(argv).accept
    try:
        programs = tools.find()
        wanted = not accept and programs.packages() == lock.read()
    except DeviceError:
        wanted = False
    if not wanted:
        print(
            "fetching about 50 MB of Debian's packages (800 MB unpacked), and compiling nextpnr: ten minutes ...",
            file=sys.stderr,
            flush=True,
        )
    else:
        print(f"already installed: {programs.yosys}, {programs.nextpnr}, {programs.frames2bit}, {programs.bitread}")
        return 0
    try:
        folder = install(accept)
        versions = tools.find().versions()
    except (BitlaneError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{folder}:", *versions.values(), sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
