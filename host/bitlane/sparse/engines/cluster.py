"""Ray, on this machine alone or as a cluster, for the time of a training."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bitlane.errors import BitlaneError, DataError
from bitlane.support.optional import require_extra

_STORE_BYTES = 80 << 20  # of Ray's store, which actors here do not use; Ray takes no less
_QUIET = {"log_to_driver": False, "logging_level": "ERROR"}
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}
_FOLDERS = "/tmp"  # the paths of Ray's sockets must be short
_CONNECT_SECONDS, _END_SECONDS = 5.0, 20.0


@dataclass(frozen=True)
class Cluster:
    """Ray, as it runs.

    Attributes
    ----------
    ray : module
    local : bool
        It runs on this machine alone.
    """

    ray: Any
    local: bool

    def actor(self, kind: type, share: float, *arguments: Any, restarts: int = 0) -> Any:
        """Start an actor in a process of its own, with one thread for each library, and return its handle.

        Parameters
        ----------
        kind : type
            Its class.
        share : float
            Of a processor.
        *arguments
            Of the class.
        restarts : int, default=0
            How often Ray starts the actor anew, with the same arguments; -1: as often as it dies.
        """
        options = {
            "num_cpus": share,
            "max_restarts": restarts,
            "max_task_retries": restarts,
            "max_concurrency": 8,
            "scheduling_strategy": "SPREAD",
            "runtime_env": {"env_vars": _ONE_THREAD},
        }
        return self.ray.remote(kind).options(**options).remote(*arguments)

    def share(self, actors: int) -> float:
        """Return the part of a processor that each of some actors asks for, so that all of them can start."""
        processors = float(self.ray.cluster_resources().get("CPU", 1.0))
        return 1.0 if actors <= processors else max(0.001, processors / (2 * actors))


@contextlib.contextmanager
def cluster(address: str | None) -> Iterator[Cluster]:
    """Start Ray on this machine, or connect to a cluster; end it, or the connection, behind the context.

    Parameters
    ----------
    address : str or None
        ``host:port`` of a cluster. None: Ray on this machine alone, which ends with this process.

    Raises
    ------
    BitlaneError
        Ray is not installed, does not start, or no cluster is at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported
    ray = require_extra("ray", "--engine ray", "'bitlane[ray]'")
    with contextlib.ExitStack() as stack:
        options = _local_options(stack) if address is None else {"address": _answering(address)}
        stack.enter_context(_own_sigterm())
        stack.callback(ray.shutdown)
        try:
            ray.init(**options, **_QUIET)
        except Exception as error:  # of many kinds
            what = "Ray cannot be started" if address is None else f"no Ray cluster can be used at {address}"
            raise BitlaneError(f"{what}: {_reason(error)}") from error
        yield Cluster(ray, address is None)


def first_line(error: BaseException) -> str:
    """Return the first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _reason(error: BaseException) -> str:
    """Return why Ray cannot be used. A process listens at the address, so a refusal is one of the token."""
    if "Failed to connect to Ray cluster" in str(error):
        return (
            "it refuses this machine: export RAY_AUTH_MODE=token, with the ~/.ray/auth_token of the cluster, and use "
            "its version of Ray"
        )
    return first_line(error)


def _answering(address: str) -> str:
    """Return the address, if a process listens there: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise DataError(f"{address!r} is not the HOST:PORT of a Ray cluster, for example 10.0.0.1:6379")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise BitlaneError(f"no Ray cluster answers at {address}: {error.strerror or error}") from error
    return address


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _local_options(stack: contextlib.ExitStack) -> dict[str, Any]:
    """Options of Ray on this machine, in a temporary folder that a watchdog removes when this process ends."""
    folder = tempfile.mkdtemp(prefix="bitlane-", dir=_FOLDERS if os.path.isdir(_FOLDERS) else None)
    try:
        command = [sys.executable, "-m", "bitlane.sparse.engines.watchdog", folder]
        watchdog = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise BitlaneError(f"Ray cannot be started: {error.strerror or error}") from error
    stack.callback(_release, watchdog)
    return {
        "address": "local",
        "include_dashboard": False,
        "object_store_memory": _STORE_BYTES,
        "_temp_dir": folder,
    }


def _release(watchdog: subprocess.Popen[bytes]) -> None:
    """Let the watchdog clean up, and wait for its end."""
    assert watchdog.stdin is not None
    watchdog.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        watchdog.wait(_END_SECONDS)
