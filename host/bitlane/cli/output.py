"""Where results of a command go: stdout, a run folder, a file; and progress on a terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bitlane.errors import DataError
from bitlane.reporting.records import Record, check_folder, write_record
from bitlane.support.optional import require_extra
from bitlane.support.user_warnings import warn_user

from .companions import Companion
from .old_spellings import END

OVERWRITE = Companion(("overwrite",), "--out", lambda arguments: arguments.out is not None)


def add_out_arguments(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, content: str, without: str = "with a note"
) -> None:
    """Add the arguments of a run folder with this content; `without` is what happens without --overwrite."""
    add = parser.add_argument
    add("--out", type=Path, default=None, metavar="DIR", help=f"write a run folder: {content} (default: none)")
    add("--overwrite", action="store_true", help=f"replace an earlier run in that folder (default: {without})")


def check_run_folder(arguments: argparse.Namespace, resumed: Path | None = None) -> None:
    """Refuse a folder that must not be replaced, or plots without matplotlib, before anything is trained.

    Parameters
    ----------
    arguments : Namespace
        With what `add_out_arguments` adds.
    resumed : Path, optional
        The run folder that goes on, which may be the same.
    """
    out: Path | None = arguments.out
    if out is None:
        return
    check_folder(out)
    require_extra("matplotlib", "plotting (--out)")
    is_resumed = resumed is not None and resumed.resolve() == out.resolve()
    if out.is_dir() and any(out.iterdir()) and not is_resumed and not getattr(arguments, "overwrite", False):
        warn_user(f"--out {out} replaces an earlier run: from version {END} on this needs --overwrite")


def check_file(out: Path) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    if out.is_dir() or not out.parent.is_dir():
        raise DataError(f"--out {out}: not a file name in an existing folder")


def report(summary: str, record: Record, out: Path | None, add: Callable[[Path], object]) -> None:
    """Write the run folder, if one is asked for, then print the summary: the reader of stdout may stop reading.

    Parameters
    ----------
    summary : str
    record : Record
    out : Path or None
    add : callable
        Adds files to the run folder.
    """
    if out is not None:
        write_record(out, record, add)
        summary += f"\n\nwritten to {out}: {', '.join(sorted(path.name for path in out.iterdir()))}"
    print(summary)


@contextlib.contextmanager
def byte_progress(path: Path) -> Iterator[Callable[[int], object] | None]:
    """Show how much of a file is read on stderr if that is a terminal; yield a function that takes bytes, or None."""
    if not (sys.stderr.isatty() and path.is_file()):
        yield None
        return
    tqdm, total = require_extra("tqdm", "a progress bar").tqdm, path.stat().st_size
    with tqdm(total=total, desc=f"reading {path.name}", unit="B", unit_scale=True, leave=False) as bar:
        yield bar.update


@contextlib.contextmanager
def progress(what: str, total: int, unit: str = "epoch") -> Iterator[Callable[..., None] | None]:
    """Show a progress bar on stderr if that is a terminal; yield a function that advances it by one, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    with require_extra("tqdm", "a progress bar").tqdm(total=total, desc=what, unit=unit, leave=False) as bar:
        yield lambda *_: bar.update()
