"""Release check: `python .ci/dist.py PYTHON ...` builds sdist and wheel and tries them in bare environments.

The sdist is built from the work tree, and the wheel from the sdist. Each is installed for each interpreter in a new
environment, where only numpy comes with it. There `try_package` trains on the emulator, from a folder without the
sources. The built files stay in dist/.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
NEEDED = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE", "Makefile", "docs/conf.py")
# Files that a build or a test leaves behind.
LEFTOVERS = ("__pycache__", ".pyc", ".egg-info", ".so", ".vcd", ".fst", ".orig", ".rej", "/build/", "/runs/", "/.venv")

try_package = """
import sys

import bitlane

foreign = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"bitlane", "__main__"}
foreign -= {name for name in foreign if name.startswith(("_", "sitecustomize", "usercustomize"))}
assert foreign <= {"numpy"}, f"import bitlane loads {sorted(foreign)}"

import numpy as np
from bitlane import SGDRegressor

rng = np.random.default_rng(0)
X = rng.normal(size=(500, 10))
weights = np.arange(10.0)
model = SGDRegressor(bits=8, learning_rate=0.5, decay=0.8, device="emulator", random_state=0).fit(X, X @ weights)
assert np.allclose(model.coef_, weights, atol=0.05), model.coef_
loaded = {name.partition(".")[0] for name in sys.modules} & {"sklearn", "pandas", "matplotlib", "numba", "torch"}
assert not loaded, f"a training loads {sorted(loaded)}"
print(f"Python {sys.version.split()[0]}, numpy {np.__version__}: R squared {model.score(X, X @ weights):.6f}")
"""


def main(pythons: list[str]) -> int:
    """Build, look into the files, and try them; an error ends the check."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    _check_sdist(sdist)
    _check_wheel(wheel)
    for python in pythons:
        for built in (wheel, sdist):
            _try(python, built)
    print(f"{sdist.name}, {wheel.name}: installed and trained with {', '.join(pythons)}")
    return 0


def _check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    links = [each.name for each in members if each.issym() or each.islnk()]
    assert not links, f"{sdist.name} holds links: {links}"
    names = {each.name.partition("/")[2] for each in members}
    _check_names(sdist, names)
    missing = sorted(set(NEEDED) - names)
    assert not missing, f"{sdist.name} lacks {missing}"
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    if extra := sorted(names - set(tracked) - {"PKG-INFO"}) if any(tracked) else []:
        raise AssertionError(f"{sdist.name} holds files that are not tracked: {extra[:5]}")
    print(f"{sdist.name}: {len(names)} files, no links, no leftovers")


def _check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        _check_names(wheel, names)
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    tops = {name.partition("/")[0] for name in names}
    expected = {"bitlane", "bitlane_hw", "bitlane_sim", "-".join(wheel.stem.split("-")[:2]) + ".dist-info"}
    assert tops == expected, f"{wheel.name} holds {sorted(tops)}"
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert len(needed) == 1 and "numpy" in needed[0], f"{wheel.name} needs {needed}"
    print(f"{wheel.name}: {len(names)} files, needs numpy only")


def _check_names(built: Path, names: set[str]) -> None:
    found = sorted(name for name in names if any(left in f"/{name}" for left in LEFTOVERS))
    assert not found, f"{built.name} holds leftovers: {found[:5]}"


def _try(python: str, built: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _run(python, "-m", "venv", f"{folder}/venv")
        inside = f"{folder}/venv/bin"
        _run(f"{inside}/pip", "install", "--quiet", "--disable-pip-version-check", str(built))
        listed = subprocess.check_output([f"{inside}/pip", "list", "--format=freeze"], text=True)
        packages = {line.partition("==")[0] for line in listed.split()}
        assert packages <= {"bitlane", "numpy", "pip", "setuptools"}, f"{built.name} brings {sorted(packages)}"
        print(f"{built.name}: ", end="", flush=True)
        _run(f"{inside}/python", "-c", try_package, folder=folder)
        _run(f"{inside}/bitlane", "--version", folder=folder)
        _run(f"{inside}/python", "-m", "bitlane.cli", "devices", folder=folder)


def _run(*command: str, folder: str | None = None) -> None:
    print(end="", flush=True)
    subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or [sys.executable]))
