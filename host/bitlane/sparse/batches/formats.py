"""Formats of files, and the suffixes that say them."""

from __future__ import annotations

from pathlib import PurePosixPath

from bitlane.errors import DataError

FORMATS = {
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".ffm": "libffm",
    ".libffm": "libffm",
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
}
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".xz": "xz"}
TEXT = ("libsvm", "libffm", "vw", "csv", "tsv", "json")
NAMES = tuple(dict.fromkeys(FORMATS.values()))


def check_encoding(encoding: str) -> None:
    """Raise DataError if Python knows no encoding of text by this name."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError) as error:
        raise DataError(f"encoding={encoding!r} is unknown: use a name such as latin1, cp1252 or utf-16") from error


def format_of(name: str, fallback: str | None = None) -> tuple[str | None, str | None]:
    """Return format and compression by a file name's suffixes; of an unknown suffix the format is `fallback`."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        known = FORMATS.get(suffixes[-2], fallback) if len(suffixes) > 1 else fallback
        return (known if known in TEXT else None), COMPRESSIONS[suffixes[-1]]
    return (FORMATS.get(suffixes[-1], fallback) if suffixes else fallback), None
