"""Weight servers in processes on this machine: started, started again when they end, and stopped."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.servers.lanes import address_of, loopback

LOG = logging.getLogger("bitlane.sparse")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds before a process that has ended is started again
_HEALTHY = 30.0  # seconds after which an end is not counted with those before
_END_SECONDS = 10.0


class LocalServers:
    """The weight servers of a model on this machine. A context manager; they end with it, or with this process.

    Parameters
    ----------
    uri : str
        Of the registry.
    shards, replicas : int
    token : str
        That the servers want.
    cache : Path, optional
        A local folder for copies of remote files.
    """

    def __init__(self, uri: str, shards: int, replicas: int, token: str, cache: Path | None = None):
        self._token, self._stop = token, threading.Event()
        host = loopback()
        options = [
            "--host",
            host,
            "--registry",
            uri,
            "--shards",
            str(shards),
            "--token-file",
            "/dev/stdin",
            "--with-parent",
        ]
        options += [] if cache is None else ["--cache", str(cache)]
        program = [sys.executable, "-m", "bitlane.sparse.serving.shards.process", *options]
        self._servers = [
            [_Server(host, [*program, "--shard", str(shard)], token, self._stop) for _ in range(replicas)]
            for shard in range(shards)
        ]

    def find(self, shard: int, replica: int) -> str | None:
        """Return the address of a server now, or None: it does not run."""
        return self._servers[shard][replica].address

    def pids(self) -> list[list[int | None]]:
        """Return the process of each shard's replicas; None: it does not run now."""
        return [[server.pid for server in shard] for shard in self._servers]

    def __enter__(self) -> LocalServers:
        for shard in self._servers:
            for server in shard:
                server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        servers = [server for shard in self._servers for server in shard]
        for server in servers:
            server.terminate()
        for server in servers:
            server.join()


class _Server:
    """One process after the other, each started by a thread that waits for its end."""

    def __init__(self, host: str, command: list[str], token: str, stop: threading.Event):
        self._host = host
        self._command = command
        self._token = token
        self._stop = stop
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self.address: str | None = None
        self._thread = threading.Thread(target=self._keep, name="bitlane-weight-server", daemon=True)

    @property
    def pid(self) -> int | None:
        return None if self.address is None or self._process is None else self._process.pid

    def start(self) -> None:
        self._thread.start()

    def terminate(self) -> None:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()

    def join(self) -> None:
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive() and self._process is not None:
            self._process.kill()
            self._thread.join()

    def _keep(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            begin = time.monotonic()
            try:
                self._run()
            except (OSError, ValueError, KeyError) as error:
                LOG.warning("a weight server did not start: %s", reason_of(error))
            if time.monotonic() - begin > _HEALTHY:
                pause = _FIRST_PAUSE
            self._stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _run(self) -> None:
        """Start a process and wait for its end."""
        with self._lock:
            if self._stop.is_set():
                return
            process = self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert process.stdin is not None and process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(self._token)
                process.stdin.close()
            line = process.stdout.readline()
            if line:
                self.address = address_of(self._host, json.loads(line)["port"])
            code = process.wait()
        finally:
            self.address = None
            process.stdout.close()
            if process.poll() is None:
                process.kill()
                process.wait()
        if not self._stop.is_set():
            LOG.warning("a weight server has ended with status %d; restarting it", code)
