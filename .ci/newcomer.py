"""Play three newcomers with an empty home: `python .ci/newcomer.py [PATH ...]` prints seconds and megabytes of each.

Each types what "Get started" of the README says, in a new folder with a new virtual environment, and nothing is cached:
home, pip's cache and ours are empty. Packages are downloaded first, so that the table has a column for the network. The
first success is the output that the README promises, or an answer of the service.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEAD = ("path", "download, s", "install, s", "first success, s", "without download, s", "wheels, MB", "installed, MB")
PORT = 8139
START = 60  # seconds until the service answers


@dataclass(frozen=True)
class Home:
    """An empty home with a virtual environment."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LANG", "SSL_"))}
        path = f"{self.folder / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        return {**kept, "HOME": str(self.folder), "PATH": path, "PIP_NO_CACHE_DIR": "1"}

    def run(self, *command: str) -> str:
        """Run a command; its standard output. It ends this program if the command fails."""
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed with status {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def megabytes(self, name: str) -> float:
        """Return the size of a folder."""
        return sum(path.lstat().st_size for path in (self.folder / name).rglob("*") if path.is_file()) / 1e6


def blocks(language: str) -> list[str]:
    """Return the code blocks of "Get started" in a language."""
    text = (ROOT / "README.md").read_text().split("## Get started")[1].split("\n## ")[0]
    return [code for found, code in BLOCK.findall(text) if found == language]


def laptop(home: Home) -> str:
    """The first snippet."""
    return home.run("python", "-c", blocks("python")[0])


def hardware(home: Home) -> str:
    """The first snippet on the simulated accelerator."""
    return home.run("python", "-c", blocks("python")[0].replace("bits=4,", 'bits=4, device="rtl",'))


def service(home: Home) -> str:
    """The commands of the service, and one prediction over HTTP."""
    commands = next(code for code in blocks("sh") if "sparse train" in code)
    home.run("sh", "-ec", commands)
    serve = f"exec bitlane sparse serve models/ctr --port {PORT} --flight-port 0"
    process = subprocess.Popen(["sh", "-c", serve], cwd=home.folder, env=home.environment)
    url = f"http://127.0.0.1:{PORT}/v2/models/ctr"
    try:
        columns = [
            each for each in _asked(url)["inputs"] if each["name"] not in ("keys", "offsets", "fields", "values")
        ]
        row = [{**each, "shape": [1], "data": ["1" if each["datatype"] == "BYTES" else 1]} for each in columns]
        return f"prediction {_asked(f'{url}/infer', {'inputs': row})['outputs'][0]['data']}"
    finally:
        process.terminate()
        process.wait()


def _asked(url: str, body: dict[str, object] | None = None) -> dict[str, list[dict[str, object]]]:
    """Return the JSON of an address, which is posted to with a body; it may take a while until the service answers."""
    end = time.monotonic() + START
    data = None if body is None else json.dumps(body).encode()
    while True:
        try:
            with urllib.request.urlopen(url, data, timeout=5) as response:
                answer: dict[str, list[dict[str, object]]] = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{url}: {error}: {error.read().decode()}") from None
        except OSError:
            if time.monotonic() > end:
                raise SystemExit(f"the service did not answer at {url} within {START} seconds") from None
            time.sleep(0.1)


PATHS: dict[str, tuple[str, Callable[[Home], str]]] = {
    "laptop": ("", laptop),
    "hardware": ("[sim]", hardware),
    "service": ("[sparse,cli,serve]", service),
}


def play(name: str) -> str:
    """Play one newcomer, and return a line of the table."""
    extra, succeed = PATHS[name]
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        home = Home(Path(folder))
        seconds = []
        for step in (
            lambda: subprocess.run([sys.executable, "-m", "venv", home.folder / "venv"], check=True),
            lambda: home.run("pip", "wheel", "--quiet", "-w", "wheels", f"{ROOT}{extra}"),
            lambda: home.run("pip", "install", "--quiet", "--no-index", "--find-links", "wheels", f"bitlane{extra}"),
            lambda: print(succeed(home).strip(), file=sys.stderr),
        ):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
        venv, download, install, success = seconds
        total = venv + install + success
        cells = [name, f"{download:.1f}", f"{venv + install:.1f}", f"{success:.1f}", f"{total:.1f}"]
        return "| " + " | ".join([*cells, f"{home.megabytes('wheels'):.0f}", f"{home.megabytes('venv'):.0f}"]) + " |"


def main(argv: Sequence[str] | None = None) -> None:
    """Play the newcomers, and print the table."""
    parser = argparse.ArgumentParser(description="Time the README's first successes with an empty home.")
    parser.add_argument("path", nargs="*", help=f"{', '.join(PATHS)} (default: all)")
    names = parser.parse_args(argv).path or [*PATHS]
    if unknown := set(names) - set(PATHS):
        parser.error(f"no path {', '.join(sorted(unknown))}: choose from {', '.join(PATHS)}")
    print(f"| {' | '.join(HEAD)} |\n| --- |{' ---: |' * (len(HEAD) - 1)}")
    for name in names:
        print(play(name), flush=True)


if __name__ == "__main__":
    main()
