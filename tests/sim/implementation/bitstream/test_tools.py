"""Search for the tools, and `make toolchain` with a fake Debian archive."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bitlane.errors import DeviceError
from bitlane_sim.implementation.bitstream import install, tools

# Both leave what they were called with, and do what apt-get and dpkg-deb would for one package.
APT = """\
#!/bin/sh
echo "$@" >> "$CALLS"
while [ $# -gt 0 ]; do [ "$1" = --config-file ] && folder=$(dirname "$2"); [ "$1" = install ] && touch \
"$folder/cache/archives/yosys_1_amd64.deb"; shift; done
grep -q "Dir::State::status \\"$folder/status\\"" "$folder/apt.conf" && grep -q sid "$folder/sources.list"
"""
DPKG = """\
#!/bin/sh
echo "$@" >> "$CALLS"
[ -n "$BROKEN" ] && { mkdir -p "$3"; echo "dpkg-deb: error: no space left" >&2; exit 2; }
mkdir -p "$3/usr/bin" "$3/usr/lib/any-linux-gnu" "$3/usr/share/prjxray/database/zynq7"
for name in yosys yosys-abc nextpnr-himbaechel-xilinx xc7frames2bit bitread; do echo $name > "$3/usr/bin/$name"; done
printf '#!/bin/sh\\necho "home $PYTHONHOME"; for each in "$@"; do echo "$each"; done\\n' \
> "$3/usr/lib/any-linux-gnu/ld-linux-any.so.2"
chmod +x "$3/usr/lib/any-linux-gnu/ld-linux-any.so.2"
"""


def compiled(folder: Path, database: Path) -> Path:
    """Stand in for the compilation of nextpnr."""
    assert (database / "zynq7").is_dir()
    folder.mkdir()
    program = folder / "program"
    program.write_text("#!/bin/sh\necho patched\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with the scripts above as apt-get and dpkg-deb, and no other tools."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for name in ("sh", "mkdir", "touch", "dirname", "grep", "chmod"):
        (programs / name).symlink_to(shutil.which(name) or name)
    keyring = tmp_path / "archive-key.gpg"
    keyring.touch()
    monkeypatch.setattr(install, "KEYRING", keyring)
    monkeypatch.setattr(install.nextpnr, "build", compiled)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path


@pytest.mark.parametrize(
    ("gone", "named"),
    [("bin/xc7frames2bit", "xc7frames2bit"), (str(tools.DATABASE), r"\S*share/prjxray/database/zynq7")],
)
def test_errors_name_the_missing_tool(machine: Path, gone: str, named: str) -> None:
    install.install()
    usr = tools.installed_folder()
    assert tools.find().database == usr / tools.DATABASE
    assert tools.find().nextpnr == str(usr / "bin" / tools.NEXTPNR)
    (usr / gone).unlink() if (usr / gone).is_file() else (usr / gone).rmdir()
    with pytest.raises(DeviceError, match=rf"a bitstream needs {named}, not found: run `make toolchain`"):
        tools.find()


def test_packages_become_programs_that_run_anywhere(machine: Path) -> None:
    """Each runs with its own loader and libraries, also after the folder is moved."""
    folder = install.install()
    calls = (machine / "calls").read_text().splitlines()
    assert calls[0].endswith("update")
    assert "--download-only install yosys nextpnr-himbaechel-xilinx prjxray prjxray-database" in calls[1]
    assert [call.split()[0] for call in calls[2:]] == ["-x"]
    assert list(folder.parent.iterdir()) == [folder]
    moved = folder.rename(machine / "moved")
    assert subprocess.check_output([moved / "usr" / "bin" / tools.NEXTPNR], text=True) == "patched\n"
    for program in ("yosys", "yosys-abc", "xc7frames2bit", "bitread"):
        said = subprocess.run(
            [moved / "usr" / "bin" / program, "-p", "a b"], capture_output=True, text=True, check=True
        )
        home, option, libraries, _zero, _name, started, *rest = said.stdout.splitlines()
        assert (home, option) == (f"home {moved}/usr", "--library-path")
        assert libraries == f"{moved}/usr/lib/any-linux-gnu"
        assert Path(started).read_text() == f"{program}\n"
        assert rest == ["-p", "a b"]


def test_an_interrupted_attempt_changes_nothing(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install.install()
    (folder / "mine").touch()
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(DeviceError, match=r"dpkg-deb failed \(2\):\ndpkg-deb: error: no space left"):
        install.install()
    assert (folder / "mine").exists()
    assert list(folder.parent.iterdir()) == [folder]
    (folder.parent / "toolchain.killed" / "root").mkdir(parents=True)  # of one that could not clean up
    monkeypatch.delenv("BROKEN")
    install.install()
    assert not (folder / "mine").exists()
    assert list(folder.parent.iterdir()) == [folder]


def test_without_debian(machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    install.KEYRING.unlink()
    assert install.main() == 1
    assert "apt install archive-key" in capsys.readouterr().err
    (machine / "bin" / "apt-get").unlink()
    monkeypatch.setenv("PATH", str(machine / "bin"))
    with pytest.raises(DeviceError, match="this machine has no apt"):
        install.install()


def test_nothing_is_fetched_twice(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main() == 0
    assert install.main() == 0
    assert "already installed: " in capsys.readouterr().out
    assert len((machine / "calls").read_text().splitlines()) == 3
