"""An average that a background thread computes, while the rank continues training.

The thread ends with the average, whether it succeeds or not. On a GPU it has its own stream, so that the kernels of the
codecs do not wait for those of the training.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import torch
from torch import Tensor


class BackgroundAverage:
    """An average in progress.

    Parameters
    ----------
    average : callable
        Returns the average, in the thread.
    device : torch.device
        The device of the average.
    """

    def __init__(self, average: Callable[[], Tensor], device: torch.device):
        self._average, self._future = average, Future[Tensor]()
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream(device))
        self._thread = threading.Thread(target=self._run, name="bitlane-average", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with torch.cuda.stream(self._stream):  # sets the device of this thread, too; None does nothing
                self._future.set_result(self._average())
        except BaseException as error:
            self._future.set_exception(error)

    @property
    def failed(self) -> bool:
        """Whether the thread has ended with an error, which `result` raises."""
        return self._future.done() and self._future.exception() is not None

    def wait(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def result(self) -> Tensor:
        """Wait for the average, and return it; raise the error of the thread."""
        self.wait()
        average = self._future.result()
        if self._stream is not None:
            torch.cuda.current_stream(average.device).wait_stream(self._stream)
        return average


class FinishedAverage:
    """An average that was restored from a saved state, as a `BackgroundAverage`."""

    failed = False

    def __init__(self, average: Tensor):
        self._average = average

    def wait(self) -> None:
        """Do nothing."""

    def result(self) -> Tensor:
        """Return the average."""
        return self._average
