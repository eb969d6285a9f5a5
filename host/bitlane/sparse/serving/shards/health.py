"""Whether a replica answers, how quickly, and for how long it is left out after a failure."""

from __future__ import annotations

import threading
import time

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds for which a replica that failed is left out
_SILENT = 3  # requests in a row without an answer in time, after which a replica has failed
_AT_FIRST = 0.001  # seconds of an answer, before the first
_NEWEST = 0.2  # weight of the newest answer in the mean
_HALVED = 5.0  # seconds after which the mean of a replica that is not asked is half: so it is tried again


class Health:
    """What a front knows of a replica from the answers. For several threads.

    Attributes
    ----------
    is_well : bool
        It has answered a ping, and has not failed since.
    problem : str or None
        Of the last failure; None: it is well.
    seconds : float
        Mean of the last answers.
    asked : int
        Requests so far.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_well = False
        self.problem: str | None = "it has not answered yet"
        self.seconds, self.asked = _AT_FIRST, 0
        self._running = self._failures = self._silent = 0
        self._last = self._until = 0.0  # of the last answer; of the pause after a failure

    @property
    def pause(self) -> float:
        """Seconds for which it is left out still."""
        return max(self._until - time.monotonic(), 0.0)

    @property
    def cost(self) -> float:
        """Expected seconds of an answer, times the requests that would run then."""
        age = time.monotonic() - self._last
        return float(max(self.seconds * 0.5 ** (age / _HALVED), 1e-6) * (1 + self._running))

    def begin(self) -> None:
        """Note a request."""
        with self._lock:
            self._running += 1
            self.asked += 1

    def drop(self) -> None:
        """Note the end of a request that says nothing of the replica."""
        with self._lock:
            self._running -= 1

    def answer(self, seconds: float) -> None:
        """Note an answer with weights: failures before it are over."""
        with self._lock:
            self._end(seconds)
            self._silent = self._failures = 0

    def refuse(self) -> None:
        """Note that it was too busy: it costs more, not less, than its quick answer says."""
        with self._lock:
            self._end(2 * self.seconds)

    def silence(self, seconds: float) -> None:
        """Note a request without an answer in time."""
        with self._lock:
            self._end(seconds)
            self._silent += 1
            if self._silent >= _SILENT:
                self._fail("it does not answer in time")

    def fail(self, problem: str, *, running: bool) -> None:
        """Leave the replica out: twice as long as after the failure before, up to a limit.

        Parameters
        ----------
        problem : str
        running : bool
            Whether a request failed; else a ping did.
        """
        with self._lock:
            self._running -= running
            self._fail(problem)

    def pong(self) -> None:
        """Note an answer to a ping: from now on it is asked, unless it is left out still."""
        with self._lock:
            if self.pause == 0.0:
                self.is_well, self.problem = True, None

    def _end(self, seconds: float) -> None:
        self._running -= 1
        self.seconds += _NEWEST * (seconds - self.seconds)
        self._last = time.monotonic()

    def _fail(self, problem: str) -> None:
        self.is_well = False
        self.problem = problem
        self._silent = 0
        if self.pause == 0.0:
            self._until = time.monotonic() + min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
            self._failures = min(self._failures + 1, 16)
