"""Linux network namespaces: one for each rank, connected by a bridge, with limited bandwidth in each direction.

One more namespace holds the bridge. All interfaces are created inside the namespaces, so the network of the machine
stays unchanged. Requires root and the programs ip and tc (iproute2).
"""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import BitlaneError

INTERFACE = "eth0"  # in the namespace of each rank
MTU = "9000"  # jumbo frames: headers are 1 % of the traffic instead of 6 % with frames of 1,500 bytes
BURST = "64kb"  # sent at full speed after a pause; the kernel hands over packets of this size
QUEUE = "64mb"  # large enough that no packet is dropped while several ranks send to one
_NAMESPACES = Path("/var/run/netns")
_CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")  # of the current namespace
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class NetworkNamespaces:
    """The namespaces of `ranks` ranks, with `bandwidth` bytes per second in each direction; can be pickled."""

    prefix: str
    ranks: int
    bandwidth: float

    @classmethod
    def with_unique_names(cls, ranks: int, bandwidth: float) -> NetworkNamespaces:
        """Return namespaces with unique names; `create` creates them."""
        return cls(f"bitlane-{os.getpid()}-{secrets.token_hex(3)}", ranks, bandwidth)

    def create(self) -> None:
        """Create the namespaces; on failure remove them and raise BitlaneError."""
        try:
            hub = self._name("hub")
            _ip("netns", "add", hub)
            _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
            _ip("-n", hub, "link", "set", "bridge", "up")
            for rank in range(self.ranks):
                self._add(rank, hub)
        except BaseException:
            self.remove()
            raise

    def _add(self, rank: int, hub: str) -> None:
        own, port = self._name(rank), f"port{rank}"
        _ip("netns", "add", own)
        _ip("-n", own, "link", "add", INTERFACE, "type", "veth", "peer", "name", port, "netns", hub)
        _ip("-n", own, "address", "add", _address(rank), "dev", INTERFACE)
        for namespace, interface in ((own, "lo"), (own, INTERFACE), (hub, port)):
            _ip("-n", namespace, "link", "set", interface, *(() if interface == "lo" else ("mtu", MTU)), "up")
        _ip("-n", hub, "link", "set", port, "master", "bridge")
        for namespace, interface in ((own, INTERFACE), (hub, port)):
            shape = ("rate", f"{round(self.bandwidth)}bps", "burst", BURST, "limit", QUEUE)  # tc's bps: bytes a second
            _run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", *shape)

    def remove(self) -> None:
        """Remove the namespaces that exist, with their interfaces."""
        for each in (*range(self.ranks), "hub"):
            if (_NAMESPACES / self._name(each)).exists():
                _ip("netns", "del", self._name(each))

    def enter(self, rank: int) -> None:
        """Move the calling thread to the namespace of a rank, and set the interface that gloo uses.

        Threads and processes that it starts later are in this namespace too.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        with (_NAMESPACES / self._name(rank)).open() as namespace:
            if libc.setns(namespace.fileno(), _CLONE_NEWNET):
                raise BitlaneError(f"rank {rank} cannot enter its namespace: {os.strerror(ctypes.get_errno())}")
        _CONGESTION.write_text("reno")  # every kernel has it; with BBR, which probes, transfers take up to 10 % longer
        os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE

    def address(self, rank: int) -> str:
        """Return the address of a rank, which the other namespaces reach."""
        return _address(rank).partition("/")[0]

    def _name(self, which: int | str) -> str:
        return f"{self.prefix}-{which}"


def _address(rank: int) -> str:
    return f"10.77.{(rank + 1) // 250}.{(rank + 1) % 250 + 1}/16"


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise BitlaneError(f"program {command[0]!r} not found: install iproute2") from error
    except subprocess.CalledProcessError as error:
        raise BitlaneError(f"{' '.join(command)}: {error.stderr.strip() or error.returncode}") from error
