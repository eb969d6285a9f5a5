"""The coordinator over real sockets: silent and slow members, other programs, and what members see when it ends."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from bitlane.compress.elastic import __main__ as command
from bitlane.compress.elastic.coordinator import Coordinator
from bitlane.compress.elastic.membership import CoordinatorLost, Membership, MembershipChanged, VotedOut
from bitlane.compress.elastic.messages import packed
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch

LONG = 60.0  # seconds, on a machine with other work


class Served:
    """A coordinator in a thread."""

    def __init__(self, members, silence=LONG, patience=LONG):
        self.coordinator = Coordinator(members, silence, patience)
        self.result, ready = [], threading.Event()

        def serve():
            def on_ready(port):
                self.port = port
                ready.set()

            try:
                self.result.append(asyncio.run(self.coordinator.serve("127.0.0.1", 0, on_ready)))
            except BitlaneError as error:
                self.result.append(error)

        self.thread = threading.Thread(target=serve, daemon=True)
        self.thread.start()
        assert ready.wait(LONG)
        self.address = f"127.0.0.1:{self.port}"

    def join(self, name, step=0, settings="one", patience=LONG):
        membership = Membership(self.address, patience)
        return membership, membership.join(name=name, port=1, settings=settings, step=step, state="same", members=[])

    def ended(self):
        self.thread.join(LONG)
        return self.result[0]


def together(*work):
    """Return the results of functions that run at the same time."""
    results = {}
    threads = [
        threading.Thread(target=lambda n=n, each=each: results.update({n: each()})) for n, each in enumerate(work)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)
    return [results[n] for n in range(len(work))]


def formed(membership, generation):
    membership.send("formed", generation=generation, ok=True, state="formed")
    return membership.wait("go")


def test_members_form_and_the_training_ends_with_them():
    served = Served(2)
    (a, first), (b, second) = together(lambda: served.join("a"), lambda: served.join("b"))
    assert first == second and first.names == ("a", "b") and first.behind == ()
    together(lambda: formed(a, 1), lambda: formed(b, 1))
    a.send("end")
    a.close()
    with pytest.raises(MembershipChanged) as change:
        b.wait()
    assert change.value.formation.names == ("b",) and change.value.formation.lost == ()
    b.send("end")
    b.close()
    assert served.ended() == "all members have finished"


def test_other_settings_and_names_in_use_are_refused_with_one_line():
    served = Served(1)
    a, _ = served.join("a")
    for name, settings, text in (("a", "one", "the name 'a' is in use"), ("b", "two", "a has one, b has two")):
        with pytest.raises(VotedOut, match=text):
            served.join(name, settings=settings)
    assert formed(a, 1)["generation"] == 1
    a.close()


def test_other_programs_do_not_harm():
    served = Served(1)
    for line in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n",
        b'{"kind":"hello"}\n',
        b'{"kind":"hello","name":5,"port":"x"}\n',
        b"",
    ):
        with socket.create_connection(("127.0.0.1", served.port), LONG) as other:
            other.sendall(line)
            other.shutdown(socket.SHUT_WR)
            other.settimeout(LONG)
            while other.recv(1000):
                pass
    a, formation = served.join("a")
    assert formation.names == ("a",)
    a.close()


def test_a_silent_member_is_voted_out():
    served = Served(2, silence=1.0)
    with socket.create_connection(("127.0.0.1", served.port)) as silent:
        hello = {"name": "s", "host": "x", "port": 1, "settings": "one", "step": 0, "state": "same", "members": []}
        silent.sendall(packed("hello", hello))
        a, _ = served.join("a")
        with pytest.raises(MembershipChanged) as change:
            a.wait()
        assert change.value.formation.names == ("a",) and change.value.formation.lost == ("s",)
        received = b""
        while data := silent.recv(1 << 16):
            received += data
        assert b"it gave no sign of life for 1 seconds" in received
    a.close()


def test_a_member_that_lets_the_others_wait_is_voted_out():
    served = Served(2, patience=0.5)
    (a, _), (b, _) = together(lambda: served.join("a"), lambda: served.join("b"))
    together(lambda: formed(a, 1), lambda: formed(b, 1))
    a.send("arrived", generation=1, step=3)
    with pytest.raises(MembershipChanged) as change:
        a.wait()
    assert change.value.formation.names == ("a",)
    with pytest.raises(VotedOut, match=r"the others waited 0\.5 seconds for it"):
        b.wait()
    a.close()
    b.close()


def test_the_end_of_the_coordinator_is_told():
    server = socket.create_server(("127.0.0.1", 0))
    membership = Membership(f"127.0.0.1:{server.getsockname()[1]}", LONG)
    connection, _ = server.accept()
    threading.Timer(0.1, connection.close).start()
    with pytest.raises(CoordinatorLost, match="has ended"):
        membership.join(name="a", port=1, settings="", step=0, state="", members=[])
    membership.close()
    server.close()


def test_a_hanging_coordinator_is_told():
    server = socket.create_server(("127.0.0.1", 0))
    membership = Membership(f"127.0.0.1:{server.getsockname()[1]}", LONG)
    connection, _ = server.accept()
    connection.sendall(packed("welcome", {"silence": 0.5}))
    with pytest.raises(CoordinatorLost, match=r"was silent for 0\.5 seconds"):
        membership.join(name="a", port=1, settings="", step=0, state="", members=[])
    membership.close()
    connection.close()
    server.close()


def test_a_coordinator_that_is_not_there_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    begin = time.monotonic()
    with pytest.raises(CoordinatorLost, match=f"no coordinator at {address} within 0.3 seconds"):
        Membership(address, 0.3)
    assert time.monotonic() - begin < LONG


def test_an_address_in_use_is_one_line(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert command.main(["--members", "2", "--port", port]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"cannot listen on 127.0.0.1:{port}: ")


@pytest.mark.parametrize("options", [["--members", "0"], ["--members", "2", "--silence", "-1"]])
def test_wrong_numbers_are_refused(options, capsys):
    with pytest.raises(SystemExit) as end:
        command.main(options)
    assert end.value.code == 2 and "must be above 0" in capsys.readouterr().err
