"""Machine code of the programs of YoWASP, made once for each version.

Such a program compiles its WebAssembly at the first start. Programs that start at the same time all write the result
into one file, and one that already runs from the file then dies without a message. Here a program gets a folder of its
own, which is complete before it is used and is never written again.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

from bitlane_sim.rtl.build import cached

_FOLDER = "YOWASP_CACHE_DIR"


def environment_of(program: str) -> dict[str, str]:
    """Return the environment in which to run a program; for one of YoWASP it names the folder of its machine code.

    The first call for a version compiles it, which takes up to half a minute. Other processes wait.

    Raises
    ------
    subprocess.CalledProcessError
        The program does not start.
    """
    name = Path(program).name
    try:
        versions = "-".join(importlib.metadata.version(each) for each in (name, "yowasp-runtime", "wasmtime"))
    except importlib.metadata.PackageNotFoundError:  # it is not of YoWASP, or is of another environment
        return dict(os.environ)

    def make(folder: Path) -> None:
        subprocess.run(
            [program, "--version"], env={**os.environ, _FOLDER: str(folder)}, check=True, capture_output=True
        )

    return {**os.environ, _FOLDER: str(cached("yowasp", f"{name}-{versions}", make))}
