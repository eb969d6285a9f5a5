"""Search for the tools, and `make toolchain` with a fake Debian archive."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from bitlane.errors import DeviceError
from bitlane_verify.implementation.bitstream import install, lock, tools

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
    monkeypatch.setattr(lock, "LOCK", tmp_path / "packages.json")
    (tmp_path / "packages.json").write_text(json.dumps({"yosys_1_amd64.deb": hashlib.sha256(b"").hexdigest()}))
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
    assert install.main([]) == 1
    assert "apt install archive-key" in capsys.readouterr().err
    (machine / "bin" / "apt-get").unlink()
    monkeypatch.setenv("PATH", str(machine / "bin"))
    with pytest.raises(DeviceError, match="this machine has no apt"):
        install.install()


def test_nothing_is_fetched_twice(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main([]) == 0
    assert install.main([]) == 0
    assert "already installed: " in capsys.readouterr().out
    assert len((machine / "calls").read_text().splitlines()) == 3


def lock_another(machine: Path) -> str:
    """Lock a package that Debian no longer serves. Return its file name."""
    lock.LOCK.write_text(json.dumps({"yosys_0_amd64.deb": hashlib.sha256(b"older").hexdigest()}))
    return "yosys_0_amd64.deb"


def test_a_package_that_is_not_of_the_lock_is_refused(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says where the locked one is; nothing is installed."""
    name = lock_another(machine)
    assert install.main([]) == 1
    error = capsys.readouterr().err
    assert f"error: the lock has {name} with SHA-256 " in error
    assert "the distribution serves yosys_1_amd64.deb with SHA-256" in error
    assert f"fetch {name} from https://snapshot.debian.org/binary/yosys/ into {machine / 'cache' / 'sources'}" in error
    assert "install --accept" in error
    assert not tools.installed_folder().exists()
    lock.LOCK.write_text(json.dumps({"prjxray_0_amd64.deb": "0"}))
    with pytest.raises(DeviceError, match=r"the distribution serves no such package: fetch prjxray_0_amd64\.deb from"):
        install.install()


def test_an_older_package_is_taken_from_the_cache(machine: Path) -> None:
    name = lock_another(machine)
    kept = machine / "cache" / "sources" / name
    kept.parent.mkdir(parents=True)
    kept.write_text("tampered with")
    with pytest.raises(DeviceError, match=r"the distribution serves yosys_1_amd64\.deb"):
        install.install()
    kept.write_text("older")
    install.install()
    unpacked = [line.split()[1] for line in (machine / "calls").read_text().splitlines() if line.startswith("-x")]
    assert unpacked == [str(kept)]
    assert tools.find().packages() == lock.read()


def test_new_tools_can_be_accepted(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They become the lock; without `--accept` the installed tools are then those of the lock."""
    lock_another(machine)
    assert install.main(["--accept"]) == 0
    assert lock.read() == {"yosys_1_amd64.deb": hashlib.sha256(b"").hexdigest()} == tools.find().packages()
    assert install.main([]) == 0
    assert "already installed" in capsys.readouterr().out


def test_a_new_lock_installs_again(machine: Path) -> None:
    assert install.main([]) == 0
    (tools.installed_folder().parent / "packages.json").write_text("{}")
    assert install.main([]) == 0
    assert len((machine / "calls").read_text().splitlines()) == 6
    assert tools.find().packages() == lock.read()


def test_the_lock_names_what_decides_bytes() -> None:
    digests = lock.read(Path(lock.__file__).with_name("packages.json"))
    assert sorted(name.partition("_")[0] for name in digests) == sorted(lock.LOCKED)
    assert all(len(digest) == 64 for digest in digests.values())
