"""The code blocks of README, tutorial and guides: `python -m tests.helpers.pages PAGE` writes their outputs again.

A fence names its language and, behind it, why a test does not run it: `python board` needs a PYNQ board, `python torch`
the torch environment, `sh setup` installs or builds something. All other `python` and `sh` blocks of a page run in one
folder, in order, the Python blocks in one namespace. A block `text output` is what the block before it prints; `...` in
it stands for text that differs from run to run.

A block `sh background` starts a service, which runs until the page ends; the block prints its first line. Ports of the
page are replaced by free ones.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.places import ROOT

PAGES = (ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))
CODE = ("python", "sh")
MARKS = ("board", "torch", "setup")
BACKGROUND = "background"
PORT = re.compile(r"(?<=[: ])8[08]\d\d\b")  # of services, in pages
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: where its text begins in the page, its language, the words behind it, its text."""

    page: Path
    start: int
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def place(self) -> str:
        return f"{os.path.relpath(self.page, ROOT)}:{self.line}"

    @property
    def mark(self) -> str | None:
        """Why the block does not run; None for one that runs."""
        return next((word for word in self.words if word in MARKS), None)


def blocks(page: Path) -> list[Block]:
    """Fenced blocks with a language; directives of the documentation generator are left out."""
    source = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(source):
        language, *words = match["info"].split() or [""]
        if not language.startswith("{"):
            line = source.count("\n", 0, match.start("text")) + 1
            found.append(Block(page, match.start("text"), line, language, tuple(words), match["text"]))
    return found


def run(page: Path, folder: Path, mark: str | None = None) -> Iterator[tuple[Block, str, str]]:
    """Run the blocks with this mark in `folder`; yield each expected output: its block, that text, what was printed."""
    space: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    ports: dict[str, str] = {}
    with inside(folder), contextlib.ExitStack() as services:
        for block in blocks(page):
            if block.words == ("output",):
                yield block, block.text, as_on_page(printed, block.text)
            elif block.language not in CODE or block.mark != mark:
                continue
            elif block.language == "python":
                printed = run_python(block, space)
            else:
                text = PORT.sub(lambda found: ports.setdefault(found[0], free_port()), block.text)
                background = BACKGROUND in block.words
                printed = services.enter_context(service(text)) if background else run_shell(block, text)
                for shown, port in ports.items():
                    printed = re.sub(rf"(?<=[: ]){port}\b", shown, printed)


def as_on_page(printed: str, shown: str) -> str:
    """What was printed, or the text of the page if they differ only where the page has `...`."""
    pattern = ".*?".join(map(re.escape, shown.split("...")))
    return shown if re.fullmatch(pattern, printed) else printed


def free_port() -> str:
    """A port of this machine that nothing uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """`folder` as the current directory."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_python(block: Block, space: dict[str, Any]) -> str:
    """What the block prints. Its lines have their numbers in the page, also in a traceback."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), space)
    return tidy(out.getvalue())


def run_shell(block: Block, text: str) -> str:
    """What the commands of a block print, programs of this environment first. AssertionError if one fails."""
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, f"{block.place} ends with {done.returncode}: {done.stderr}"
    return tidy(done.stdout)


@contextlib.contextmanager
def service(text: str) -> Iterator[str]:
    """The first line that a command prints, which runs until the end."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {text}"], stdout=subprocess.PIPE, text=True, env=environment()
    ) as running:
        try:
            assert running.stdout is not None
            yield tidy(running.stdout.readline())
        finally:
            running.terminate()


def environment() -> dict[str, str]:
    """The environment of commands: programs of this environment first, on a terminal of 100 columns."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "COLUMNS": "100"}


def tidy(text: str) -> str:
    """Without blanks at the ends of lines and without empty lines at the end."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


def rewrite(page: Path) -> None:
    """Write what the blocks of a page print now into its output blocks."""
    source, moved = page.read_text(encoding="utf-8"), 0
    with tempfile.TemporaryDirectory() as folder:
        for block, old, new in run(page, Path(folder)):
            start = block.start + moved
            source = source[:start] + new + source[start + len(old) :]
            moved += len(new) - len(old)
    page.write_text(source, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name).resolve())
