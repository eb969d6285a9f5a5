"""A progress bar of rows, with AUC and loss of the last window."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    from bitlane.sparse.training.windows import Window


class RowBar:
    """Callbacks of a training for a bar of tqdm."""

    def __init__(self, bar: Any):
        self._bar = bar

    def on_rows(self, rows: int) -> None:
        """Advance by rows."""
        self._bar.update(rows)

    def on_window(self, window: Window) -> None:
        """Show the quality of a window."""
        quality = window.quality
        metrics = {"AUC": quality.auc, "log loss": quality.log_loss, "RMSE": quality.rmse}
        self._bar.set_postfix({name: f"{value:.4f}" for name, value in metrics.items() if value is not None})


@contextlib.contextmanager
def row_progress(what: str, total: int | None, done: int = 0) -> Iterator[RowBar | None]:
    """Show a bar on stderr if that is a terminal, and yield it, or None.

    Parameters
    ----------
    what : str
    total : int or None
        Rows, if they are known.
    done : int, default=0
        Rows before a resumption.
    """
    if not sys.stderr.isatty():
        yield None
        return
    tqdm = require_extra("tqdm", "a progress bar").tqdm
    with tqdm(total=total, initial=done, desc=what, unit=" rows", unit_scale=True, leave=False) as bar:
        yield RowBar(bar)
