"""Who may call the servers of a training, and where they listen. Each node reads secrets from its own files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.lanes import PortTaken, loopback
from bitlane.sparse.servers.security import read_secret
from bitlane.support.optional import require_extra
from bitlane.support.text import option_of

TLS_FILES = ("tls_certificate", "tls_key", "tls_ca")
Service = TypeVar("Service")


@dataclass(frozen=True)
class Access:
    """What the servers and the workers of a training must know. It is sent to all nodes and has no secret.

    Attributes
    ----------
    host : str or None
        Where servers listen. None: at the address of their node.
    token_file : str
        With the token, at the same path on each node.
    certificate_file, key_file : str or None
        Of the servers, PEM.
    authorities_file : str or None
        Certificates of the authorities that signed the servers', PEM.
    ports : (int, int) or None
        The first and the last port that servers may use. None: any free one.
    """

    host: str | None
    token_file: str
    certificate_file: str | None = None
    key_file: str | None = None
    authorities_file: str | None = None
    ports: tuple[int, int] | None = None

    @property
    def node(self) -> str:
        """The address of this node."""
        return self.host or str(require_extra("ray", "a server", "'bitlane[ray]'").util.get_node_ip_address())

    @property
    def server(self) -> dict[str, Any]:
        """The arguments of a server: token, and certificate with key; errors as of `client`."""
        tls = None
        if self.certificate_file is not None and self.key_file is not None:
            tls = self._read(self.certificate_file), self._read(self.key_file)
        return {"token": self._read(self.token_file), "tls": tls}

    @property
    def client(self) -> dict[str, Any]:
        """The arguments of a client: token and certificates.

        Raises
        ------
        BitlaneError
            This node lacks a file.
        """
        authorities = None if self.authorities_file is None else self._read(self.authorities_file)
        return {"token": self._read(self.token_file), "certificates": authorities}

    def serve(self, made: Callable[[str, int], Service]) -> Service:
        """Return `made(host, port)` with a free port.

        Raises
        ------
        BitlaneError
            No port is free, or as of `made`.
        """
        if self.ports is None:
            return made(self.node, 0)
        first, last = self.ports
        with _ports_lock():
            for port in range(first, last + 1):
                with contextlib.suppress(PortTaken):
                    return made(self.node, port)
        raise BitlaneError(f"node {self.node}: no port from {first} to {last} is free: widen --port-range")

    def _read(self, path: str) -> str:
        try:
            return read_secret(Path(path))
        except BitlaneError as error:
            raise type(error)(f"node {self.node}: {error}; each node reads this file at the same path") from error


def new_access(
    files: Mapping[str, Path | str | None], local: bool, token_file: Path, ports: tuple[int, int] | None = None
) -> Access:
    """Return the access to the servers of a new training.

    Parameters
    ----------
    files : dict
        The PEM files `TLS_FILES` by name.
    local : bool
        All processes are on this machine: servers listen on loopback.
    token_file : Path
        See `write_token`.
    ports : (int, int), optional

    Raises
    ------
    DataError
        A cluster without TLS, or TLS without a cluster.
    """
    given = [name for name in TLS_FILES if files.get(name) is not None]
    token = str(token_file.absolute())
    if local:
        if given:
            raise DataError(f"{option_of(given[0])} needs a cluster: add --ray-address, or omit it")
        return Access(loopback(), token, ports=ports)
    if len(given) < len(TLS_FILES):
        missing = ", ".join(option_of(name) for name in TLS_FILES if name not in given)
        raise DataError(f"servers of a cluster can be reached from other machines and need TLS: add {missing}")
    certificate, key, authorities = (str(Path(str(files[name])).absolute()) for name in TLS_FILES)
    for path in (certificate, key, authorities):
        read_secret(Path(path))  # before anything is made
    return Access(None, token, certificate, key, authorities, ports)


def write_token(path: Path) -> None:
    """Write a random token that only this user may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(16) + "\n")


@contextlib.contextmanager
def _ports_lock() -> Iterator[None]:
    """A section for one process of this node: two servers of gRPC could share a port without a word."""
    path = Path(tempfile.gettempdir()) / f"bitlane-ports-{os.getuid()}.lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
