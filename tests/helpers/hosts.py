"""Hosts on this machine: network namespaces with own names and addresses, whose links can be cut and listened to."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.helpers.places import ROOT

STORE_BYTES = 80 << 20
PORT = 6379
_LISTEN = "import socket,sys\ns=socket.socket(17,3,socket.htons(3))\nwhile 1: sys.stdout.buffer.write(s.recv(1<<17))"


@functools.cache
def missing() -> str:
    """Why there can be no such hosts; empty if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "unshare", "openssl"):
        if not shutil.which(program):
            return f"{program} is missing (apt install iproute2 util-linux openssl)"
    name = f"bl{os.getpid()}probe"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "switch", "type", "bridge")
    except subprocess.CalledProcessError as error:
        return f"network namespaces are refused: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return ""


class Hosts:
    """Some hosts behind one switch. A context manager.

    Parameters
    ----------
    count : int

    Attributes
    ----------
    addresses : list of str
    folder : Path
        A temporary folder that all hosts share.
    """

    def __init__(self, count: int):
        self._mark = f"bl{os.getpid()}"
        self.addresses = [f"10.77.0.{host + 1}" for host in range(count)]
        self.folder = Path(tempfile.mkdtemp(prefix="bl-", dir="/tmp"))  # the paths of Ray's sockets must be short
        self.token = secrets.token_hex(16)  # of Ray
        self._programs: list[subprocess.Popen[Any]] = []
        self.logs = 0

    def __enter__(self) -> Hosts:
        switch = self._switch
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", switch, "link", "set", "switch", "up")
        for host, address in enumerate(self.addresses):
            name = self._name(host)
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{host}", "netns", switch)
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "route", "add", "default", "dev", "eth0")
            _ip("-n", switch, "link", "set", f"port{host}", "master", "switch", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            if program.poll() is None:
                program.terminate()
        for name in [self._name(host) for host in range(len(self.addresses))] + [self._switch]:
            self.kill(name)
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)
        for program in self._programs:
            program.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- links
    def cut(self, host: int) -> None:
        """Lose all that goes to or comes from a host, without a word to either side."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "nomaster")

    def mend(self, host: int) -> None:
        """Carry again."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "master", "switch")

    def cut_for(self, host: int, seconds: float) -> None:
        """Cut, wait, mend."""
        self.cut(host)
        time.sleep(seconds)
        self.mend(host)

    @contextlib.contextmanager
    def heard(self) -> Iterator[Callable[[], bytes]]:
        """Record all packets; the function returns them."""
        path = self.folder / "packets"
        with path.open("wb") as file:
            program = subprocess.Popen(
                ["ip", "netns", "exec", self._switch, sys.executable, "-u", "-c", _LISTEN], stdout=file
            )
        try:
            yield path.read_bytes
        finally:
            program.terminate()
            program.wait()

    # --- programs
    def start(self, host: int, *command: object, **environment: str) -> subprocess.Popen[str]:
        """Start a program on a host; `standard error` and output go to a file of its own, see `output`."""
        name = f"host{host}"
        program = ["ip", "netns", "exec", self._name(host), "unshare", "--uts", "--mount", "sh", "-c"]
        program += [f'hostname {name}; exec "$@"', "sh", *map(str, command)]
        own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
        self.logs += 1
        with (self.folder / f"output-{self.logs}").open("w") as out:
            process = subprocess.Popen(
                program,
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **own, **environment},
            )
        process.output = Path(out.name)  # type: ignore[attr-defined]
        self._programs.append(process)
        return process

    def python(self, host: int, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Start Python on a host."""
        return self.start(host, sys.executable, *arguments, **environment)

    def kill(self, name: str) -> None:
        """Kill all processes of a namespace."""
        for _ in range(20):
            pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.1)

    def ray(self, cpus: int = 2, **environment: str) -> str:
        """Start a Ray cluster of all hosts; return its address."""
        address = f"{self.addresses[0]}:{PORT}"
        ray = str(Path(sys.executable).with_name("ray"))
        common = ["--node-manager-port", "6380", "--object-manager-port", "6381", "--runtime-env-agent-port", "6382"]
        common += ["--dashboard-agent-grpc-port", "6383", "--dashboard-agent-listen-port", "6384"]
        common += ["--metrics-export-port", "6385", "--min-worker-port", "10100", "--max-worker-port", "10199"]
        common += [
            "--disable-usage-stats",
            "--num-cpus",
            str(cpus),
            "--object-store-memory",
            str(STORE_BYTES),
            "--block",
        ]
        # `ray start` connects to its own node at first: the next host joins once the one before has.
        for host, own in enumerate(self.addresses):
            where = [
                "--head",
                "--port",
                str(PORT),
                "--include-dashboard",
                "false",
                "--temp-dir",
                str(self.folder / "ray"),
            ]
            where = where if host == 0 else ["--address", address]
            self.start(host, ray, "start", *where, "--node-ip-address", own, *common, **environment)
            self._await(self._programs[-1])
        return address

    def _await(self, program: subprocess.Popen[str], seconds: float = 120) -> None:
        until = time.monotonic() + seconds
        while "Ray runtime started" not in (text := program.output.read_text()):  # type: ignore[attr-defined]
            assert program.poll() is None and time.monotonic() < until, text
            time.sleep(0.1)

    @property
    def _switch(self) -> str:
        return f"{self._mark}s"

    def _name(self, host: int) -> str:
        return f"{self._mark}h{host}"


def certificates(folder: Path, addresses: list[str]) -> dict[str, Path]:
    """Make an authority, and one certificate for all addresses; return the PEM files by option."""
    folder.mkdir()
    names = ",".join(f"IP:{address}" for address in addresses)
    authority = ["-x509", "-subj", "/CN=test authority", "-keyout", folder / "ca.key", "-out", folder / "ca.pem"]
    _openssl("req", *authority, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    request = ["-subj", "/CN=servers", "-keyout", folder / "key.pem", "-out", folder / "request"]
    _openssl("req", *request, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    (folder / "names").write_text(f"subjectAltName={names}\n")
    signed = ["-in", folder / "request", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial"]
    _openssl("x509", "-req", *signed, "-days", "2", "-extfile", folder / "names", "-out", folder / "certificate.pem")
    files = {"certificate": "certificate.pem", "key": "key.pem", "ca": "ca.pem"}
    return {f"--tls-{name}": folder / file for name, file in files.items()}


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, text=True)
