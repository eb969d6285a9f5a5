"""Network namespaces of Linux: a place for each rank, joined by a bridge, every way in and out of a given rate.

A namespace more holds the bridge, and all interfaces are made inside, so that nothing of the machine's own network is
touched. Needs root, and the programs ip and tc (iproute2).
"""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import BitlaneError

INTERFACE = "eth0"  # a rank's, in its namespace
MTU = "9000"  # jumbo frames: headers are 1 % of what is sent, and 6 % with frames of 1,500 bytes
BURST = "64kb"  # that goes at full speed after a pause; packets as large are handed over by the kernel
QUEUE = "64mb"  # before packets are dropped: several ranks send to one at a time
_PLACES = Path("/var/run/netns")
_CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")  # of the namespace that reads it
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class NetworkNamespaces:
    """Those of `ranks` ranks; `bandwidth` bytes a second, in and out at a time. Can be given to other processes."""

    prefix: str
    ranks: int
    bandwidth: float

    @classmethod
    def with_unique_names(cls, ranks: int, bandwidth: float) -> NetworkNamespaces:
        """With names that nothing else has; nothing is made yet."""
        return cls(f"bitlane-{os.getpid()}-{secrets.token_hex(3)}", ranks, bandwidth)

    def create(self) -> None:
        """BitlaneError where the kernel, the rights or the programs are missing; then nothing is left behind."""
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
        """Remove those that there are; their interfaces go with them."""
        for each in (*range(self.ranks), "hub"):
            if (_PLACES / self._name(each)).exists():
                _ip("netns", "del", self._name(each))

    def enter(self, rank: int) -> None:
        """Move the calling thread, and threads and processes that it starts later; gloo is told the interface."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (_PLACES / self._name(rank)).open() as place:
            if libc.setns(place.fileno(), _CLONE_NEWNET):
                raise BitlaneError(f"rank {rank} cannot enter its namespace: {os.strerror(ctypes.get_errno())}")
        _CONGESTION.write_text("reno")  # that every kernel has; BBR probes, and a transfer of a second may take 1.1
        os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE

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
        raise BitlaneError(f"no program {command[0]}: install iproute2") from error
    except subprocess.CalledProcessError as error:
        raise BitlaneError(f"{' '.join(command)}: {error.stderr.strip() or error.returncode}") from error
