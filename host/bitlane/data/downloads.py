"""Downloads: files with a known SHA-256 digest, stored in the cache folder.

pooch downloads, checks and caches. This module turns its errors into one line that says what to do.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.support.cache import make_cache
from bitlane.support.optional import require_extra

_TIMEOUT = 30.0  # seconds without a byte
_ADVICE = "try again, or set BITLANE_DATA to a folder with the data"
_BLOCK = 1 << 16  # bytes; pooch's default of 1 KiB is slow on 170 MB

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemoteFile:
    """A file with a public address.

    Attributes
    ----------
    url : str
        Address, http or https.
    sha256 : str
        SHA-256 digest of the file at this address, 64 hexadecimal digits.
    """

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """The file's name in the cache: the last component of its address."""
        return self.url.rpartition("/")[2]


def download(file: RemoteFile, folder: Path, purpose: str = "downloading data sets", advice: str = _ADVICE) -> Path:
    """Return the path of `file` in `folder`. Download it if it is missing or damaged.

    The digest is checked in each call. A file appears under its name only when it is complete and its digest is right.

    Parameters
    ----------
    file : RemoteFile
    folder : Path
        Made if it does not exist.
    purpose : str, optional
        What needs the file, for the error if pooch is not installed.
    advice : str, optional
        What to do, for the error if the download fails.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        The download failed, or the digest of the downloaded file is wrong.
    BitlaneError
        The folder cannot be written, or pooch is not installed.
    """
    pooch = require_extra("pooch", purpose, "'bitlane[datasets]'")
    requests = require_extra("requests", purpose, "'bitlane[datasets]'")
    downloader = pooch.HTTPDownloader(progressbar=_shows_progress(), timeout=_TIMEOUT, chunk_size=_BLOCK)
    if not (folder / file.name).exists():
        make_cache(folder, f"the download {file.name}")
        _logger.info("downloading %s to %s", file.url, folder)
    try:
        with _quiet(pooch.get_logger()):
            path = pooch.retrieve(file.url, f"sha256:{file.sha256}", file.name, folder, downloader=downloader)
    except requests.RequestException as error:  # an OSError too
        raise DataError(f"{file.url} cannot be downloaded: {_reason(error)}; {advice}") from error
    except ValueError as error:
        match = re.search(r"but got (\w+)", str(error))
        if match is None:
            raise
        raise DataError(
            f"{file.url} has SHA-256 {match[1]}, expected {file.sha256}: the file is damaged or was replaced; {advice}"
        ) from error
    return Path(path)


def _shows_progress() -> bool:
    """Return whether stderr is a terminal, and tqdm, which draws the bar, is installed."""
    return sys.stderr.isatty() and find_spec("tqdm") is not None


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence the messages that pooch prints on stderr; ours go to the logger of this module."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reason(error: Any) -> str:
    """Return a failed request in a few words: the status, or the innermost cause on one line."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answers {response.status_code} {response.reason}"
    cause: BaseException = error
    while cause.__cause__ or cause.__context__:
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    return " ".join(str(cause).split()) or type(cause).__name__
