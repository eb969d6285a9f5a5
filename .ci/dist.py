"""Release check: `python .ci/dist.py [PYTHON ...]` builds sdist and wheel and tries them in bare environments.

The sdist is built from the work tree, and the wheel from the sdist. Both must hold every tracked file and nothing else.
Each is installed for each interpreter in a new environment, where only numpy comes with it. There `try_package` trains
on the emulator, from a folder without the sources. Without arguments the interpreters are those that the metadata
promise: `python3.N` for each classifier "Programming Language :: Python :: 3.N". The built files stay in dist/.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGES = ("host/", "hw/", "sim/")  # folders of the work tree whose content is the wheel's
OTHERS = ("bitlane_studies", "bitlane_verify")  # distributions of their own
METADATA = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")

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


def main(pythons: Sequence[str]) -> int:
    """Build, look into the files, and try them; an error ends the check."""
    for python in pythons:
        version_of(python)  # fail before the build
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    tracked = set(subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines())
    check_sdist(sdist, tracked)
    promised = check_wheel(wheel, tracked)
    pythons = pythons or [f"python{version}" for version in promised]
    tried = {version_of(python) for python in pythons}
    for python in pythons:
        for built in (wheel, sdist):
            _try(python, built)
    left = [version for version in promised if version not in tried]
    print(f"{sdist.name}, {wheel.name}: installed and trained with Python {', '.join(sorted(tried, key=_number))}")
    print(f"not tried: Python {', '.join(left)}" if left else "every version that the metadata promise was tried")
    return 0


def version_of(python: str) -> str:
    """Return the version of an interpreter, such as "3.10"."""
    command = [python, "-c", "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.check_output(command, text=True, stderr=subprocess.PIPE).strip()
    except (OSError, subprocess.CalledProcessError) as error:
        reason = str(getattr(error, "stderr", None) or error).strip().splitlines()[0]
        hint = "install it with its venv module, or name the interpreters: make dist PYTHONS='python3.10 python3.12'"
        raise SystemExit(f"{python} does not run ({reason}): {hint}") from None


def check_sdist(sdist: Path, tracked: set[str]) -> None:
    """Fail unless the sdist holds every tracked file, nothing else and no links."""
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    links = [each.name for each in members if each.issym() or each.islnk()]
    assert not links, f"{sdist.name} holds links: {links}"
    _check_names(sdist, {each.name.partition("/")[2] for each in members}, tracked, {"PKG-INFO"})


def check_wheel(wheel: Path, tracked: set[str]) -> list[str]:
    """Fail unless the wheel holds the three packages and needs numpy only. Return the Python versions it promises."""
    info = "-".join(wheel.stem.split("-")[:2]) + ".dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        packaged = {name.partition("/")[2] for name in tracked if name.startswith(PACKAGES)}
        _check_names(wheel, names, packaged | {f"{info}/{name}" for name in METADATA})
        foreign = sorted(name for name in names if name.partition("/")[0] in OTHERS)
        assert not foreign, f"{wheel.name} holds modules of other distributions: {foreign[:5]}"
        metadata = archive.read(f"{info}/METADATA").decode().partition("\n\n")[0]
    needed = [line for line in re.findall("^Requires-Dist: (.*)$", metadata, re.MULTILINE) if "extra ==" not in line]
    assert len(needed) == 1 and "numpy" in needed[0], f"{wheel.name} needs {needed}"
    promised = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", metadata, re.MULTILINE)
    (oldest,) = re.findall(r"^Requires-Python: >=(3\.\d+)$", metadata, re.MULTILINE)
    assert promised and min(promised, key=_number) == oldest, f"{wheel.name} requires {oldest} and promises {promised}"
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {len(names)} files, no studies, no verification")
    print(f"{wheel.name}: needs numpy only, promises Python {', '.join(promised)}")
    return promised


def _number(version: str) -> int:
    return int(version.partition(".")[2])


def _check_names(built: Path, names: set[str], needed: set[str], allowed: Sequence[str] | set[str] = ()) -> None:
    names = {name for name in names if name}
    assert not (missing := sorted(needed - names)), f"{built.name} lacks {len(missing)} files: {missing[:5]}"
    extra = sorted(names - needed - set(allowed))
    assert not extra, f"{built.name} holds {len(extra)} files that are not tracked: {extra[:5]}"
    print(f"{built.name}: {len(names)} files, none missing, no leftovers")


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
    raise SystemExit(main(sys.argv[1:]))
