"""Connections of a generation: bytes arrive whole and in order; what ends, stalls or is old is told by name."""

from __future__ import annotations

import random
import socket
import threading

import pytest
import torch

from bitlane.compress.elastic.membership import Formation
from bitlane.compress.elastic.mesh import Mesh, Unreached
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch

LONG = 60.0  # seconds


class Wake:
    """What a mesh needs of a membership."""

    def __init__(self):
        self.wake, self._waker = socket.socketpair()
        self.is_interrupted = False

    def interrupt(self):
        self.is_interrupted = True
        self._waker.send(b"x")


def connected(size, timeout=LONG, generation=1):
    """Return the transports of members that connect in any order, and what interrupts them."""
    meshes, wakes = [Mesh("127.0.0.1") for _ in range(size)], [Wake() for _ in range(size)]
    members = tuple((f"m{rank}", "127.0.0.1", mesh.port) for rank, mesh in enumerate(meshes))
    formation = Formation(generation, members, (), "m0", (), ())
    found = run(*(lambda r=r: meshes[r].connect(formation, f"m{r}", wakes[r], timeout) for r in range(size)))
    return found, wakes, meshes


def run(*work):
    results = {}

    def keep(number, each):
        try:
            results[number] = each()
        except BitlaneError as error:
            results[number] = error

    threads = [threading.Thread(target=keep, args=pair) for pair in enumerate(work)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)
    return [results[number] for number in range(len(work))]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_bytes_arrive_whole_and_in_order(size, seed):
    rng = random.Random(seed)
    lengths = [[rng.choice([0, 1, 7, 300_000]) for _ in range(size)] for _ in range(size)]  # by sender and receiver
    transports, _, _ = connected(size)

    def body(sender, receiver, number):
        generator = torch.Generator().manual_seed(seed % 2**40 + 100 * sender + 10 * receiver + number)
        return torch.randint(256, (lengths[sender][receiver],), dtype=torch.uint8, generator=generator)

    def work(rank):
        incoming = [lengths[sender][rank] for sender in range(size)]
        return [
            transports[rank].exchange([body(rank, other, number) for other in range(size)], incoming)
            for number in range(3)
        ]

    for rank, rounds in enumerate(run(*(lambda r=r: work(r) for r in range(size)))):
        for number, received in enumerate(rounds):
            assert all(torch.equal(each, body(sender, rank, number)) for sender, each in enumerate(received))
        others = sum(lengths[rank][other] for other in range(size) if other != rank)
        assert transports[rank].sent == 3 * others


def exchange(transport, length=1000):
    buffers = [torch.zeros(length, dtype=torch.uint8)] * transport.size
    return lambda: transport.exchange(buffers, [length] * transport.size)


def test_a_member_that_ends_is_named():
    transports, _, _ = connected(3)
    transports[1].close()
    first, last = run(exchange(transports[0]), exchange(transports[2]))
    for error in (first, last):
        assert isinstance(error, Unreached) and error.names == ("m1",) and "m1" in str(error)
    with pytest.raises(BitlaneError, match="m1 has left its generation"):
        exchange(transports[1])()


def test_a_member_that_sends_nothing_is_named_after_the_time_limit():
    transports, _, _ = connected(3, timeout=0.3)
    first, last = run(exchange(transports[0]), exchange(transports[2]))
    for error in (first, last):
        assert error.names == ("m1",) and "nothing was sent or received for 0.3 seconds" in str(error)


def test_a_change_of_the_membership_interrupts_an_exchange():
    transports, wakes, _ = connected(2)
    threading.Timer(0.1, wakes[0].interrupt).start()
    with pytest.raises(Unreached, match="the membership has changed"):
        exchange(transports[0])()


def test_a_change_of_the_membership_interrupts_the_wait_for_a_connection():
    mesh, wake = Mesh("127.0.0.1"), Wake()
    threading.Timer(0.1, wake.interrupt).start()
    formation = Formation(1, (("a", "127.0.0.1", mesh.port), ("b", "127.0.0.1", 1)), (), "a", (), ())
    with pytest.raises(Unreached, match="the membership has changed"):
        mesh.connect(formation, "a", wake, LONG)


def test_connections_of_other_generations_are_not_used():
    meshes = [Mesh("127.0.0.1") for _ in range(2)]
    for generation in (3, 7):  # an old one, and one of a later generation, before those of 5
        early = socket.create_connection(("127.0.0.1", meshes[0].port))
        early.sendall(generation.to_bytes(8, "little") + (1).to_bytes(8, "little") + b"old bits" * 200)
    members = tuple((f"m{rank}", "127.0.0.1", mesh.port) for rank, mesh in enumerate(meshes))
    formation = Formation(5, members, (), "m0", (), ())
    first, second = run(*(lambda r=r: meshes[r].connect(formation, f"m{r}", Wake(), LONG) for r in range(2)))
    received, _ = run(exchange(first), exchange(second))
    assert all(not each.any() for each in received)
    assert set(meshes[0]._early) == {(7, 1)}


def test_the_last_ranks_can_be_dropped():
    transports, _, _ = connected(3)
    for each in transports[:2]:
        each.keep(2)
    results = run(exchange(transports[0]), exchange(transports[1]))
    assert [len(each) for each in results] == [2, 2]


def test_a_port_where_nobody_listens_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    formation = Formation(1, (("a", "127.0.0.1", port), ("b", "127.0.0.1", 1)), (), "a", (), ())
    with pytest.raises(Unreached, match=f"b cannot connect to a at 127.0.0.1:{port}"):
        Mesh("127.0.0.1").connect(formation, "b", Wake(), LONG)
