"""A study as a command: `python -m bitlane_studies...`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from bitlane.errors import BitlaneError


def run(main: Callable[[], int | None]) -> NoReturn:
    """Exit with the status that `main` returns; a wrong setting becomes one line on standard error."""
    try:
        sys.exit(main())
    except BitlaneError as error:
        sys.exit(f"error: {error}")
