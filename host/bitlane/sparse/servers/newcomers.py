"""Connections to a port of this process that have not shown its token yet: few, and not for long.

Neither gRPC, as pyarrow starts it, nor uvicorn bounds what a connection may cost that says nothing, or half of a
request or of a TLS handshake. Each takes a file descriptor, and without descriptors nobody is answered. So a thread
looks at the sockets of the process, and ends those that are too many or too old; for the server, the client has gone.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import resource
import socket
import stat
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator

SECONDS = 10.0  # until a connection must have shown the token
_POLL_SECONDS = 0.2
_LEAST, _SHARE, _MOST = 16, 8, 1024  # connections: a share of the descriptors, within bounds

Address = tuple[str, int]


def raise_descriptor_limit() -> None:
    """Let this process open as many files and connections as the system lets it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems have a hard limit above what they grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Newcomers:
    """Ends connections to a port that do not show its token in time, and the oldest ones of too many.

    Parameters
    ----------
    seconds : float, default=10
        That a connection has to show the token.
    most : int, optional
        Connections at a time. Default: an eighth of the descriptors that this process may have, from 16 to 1,024.
    """

    def __init__(self, seconds: float = SECONDS, most: int | None = None):
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = min(max(_LEAST, descriptors // _SHARE), _MOST) if most is None else most
        self._seconds = seconds
        self._admitted: dict[Address, float] = {}  # when
        self._since: dict[Address, float] = {}
        self._sockets: dict[int, Address | None] = {}  # of the last look, by inode; None: of something else
        self._stop = threading.Event()

    def watch(self, port: int) -> None:
        """Look at the connections to a port from now on, in a thread."""
        threading.Thread(target=self._watch, args=(port,), name="bitlane-newcomers", daemon=True).start()

    def close(self) -> None:
        """Look no more."""
        self._stop.set()

    def admit(self, host: str, port: int) -> None:
        """Let the connection from this address stay: it has shown the token."""
        self._admitted[_plain(host), port] = time.monotonic()

    def admit_peer(self, peer: str) -> None:
        """The same for an address as gRPC writes it, such as ``ipv4:127.0.0.1:8815``."""
        host, _, port = urllib.parse.unquote(peer.partition(":")[2]).rpartition(":")
        if port.isdecimal():
            self.admit(host.strip("[]"), int(port))

    def _watch(self, port: int) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self.look(port)

    def look(self, port: int) -> None:
        """Look once, and end the connections that must not stay."""
        began = time.monotonic()
        found = self._connections(port)
        for peer, admitted in list(self._admitted.items()):
            if peer not in found and admitted < began:  # a later one may have come during the look
                del self._admitted[peer]
        self._since = {peer: self._since.get(peer, began) for peer in found if peer not in self._admitted}
        oldest_first = sorted(self._since, key=self._since.__getitem__)
        excess = max(0, len(oldest_first) - self._most)
        for number, peer in enumerate(oldest_first):
            if number < excess or began - self._since[peer] > self._seconds:
                _end(found[peer], peer)

    def _connections(self, port: int) -> dict[Address, int]:
        """Return the descriptors of connections to a port, by address of the client. Each socket is asked once."""
        sockets, found = dict[int, "Address | None"](), dict[Address, int]()
        for descriptor in _descriptors():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                entry = os.fstat(descriptor)
                if stat.S_ISSOCK(entry.st_mode):
                    known = entry.st_ino in self._sockets
                    peer = self._sockets[entry.st_ino] if known else _client_of(descriptor, port)
                    sockets[entry.st_ino] = peer
                    if peer is not None:
                        found[peer] = descriptor
        self._sockets = sockets
        return found


def _client_of(descriptor: int, port: int) -> Address | None:
    """Return the address of the client, if this is a connection to a port of this process."""
    with contextlib.suppress(OSError), _borrowed(descriptor) as connection:  # OSError: not connected, or closed
        if _is_internet(connection) and connection.getsockname()[1] == port:
            return _peer_of(connection)
    return None


def _descriptors() -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:  # there is no descriptor left, not even for this
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _end(descriptor: int, peer: Address) -> None:
    """Shut a connection down. Its server closes the descriptor, as if the client had gone."""
    with contextlib.suppress(OSError), _borrowed(descriptor) as connection:
        if _is_internet(connection) and _peer_of(connection) == peer:  # else it was closed and opened again
            connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A section with the socket of a descriptor that another part of the process owns."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def _is_internet(connection: socket.socket) -> bool:
    return connection.family in (socket.AF_INET, socket.AF_INET6)


def _peer_of(connection: socket.socket) -> Address:
    host, port, *_ = connection.getpeername()
    return _plain(host), port


def _plain(host: str) -> str:
    """Return an address as all parts write it: IPv4 within IPv6 as IPv4, without a zone."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        return str(getattr(address, "ipv4_mapped", None) or address)
    return host
