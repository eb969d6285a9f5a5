"""Bytes that are not HTTP, before, in and behind a request: an answer or the end, and nothing in the log."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from tests.helpers.sparse_serving import MemoryRegistry, constant_model, whole_service

HEAD = b"GET /v2 HTTP/1.1\r\nHost: a\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NOISE = [b"\x00\xff" * 40, b"GET / HTTP/1.1\r\nHost", b"\r\n\r\n:\r\n", b"A" * 200_000]


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[str, int]]:
    with whole_service(MemoryRegistry(constant_model(3))) as (server, _):
        host, port = server.http_address.rsplit("/", 1)[-1].rsplit(":", 1)
        yield host, int(port)


def answer_to(place: tuple[str, int], data: bytes) -> bytes:
    with socket.create_connection(place, 10) as connection:
        answer = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(1 << 16):
                answer += more
        except OSError:  # the service has ended the connection, with bytes that it has not read
            pass
        return answer


@pytest.mark.parametrize("noise", NOISE, ids=["binary", "half a request", "no name", "long"])
@pytest.mark.parametrize("head", [HEAD + b"Connection: close\r\n\r\n", CHUNKED, CHUNKED + b"2\r\nab\r\n", b""])
def test_noise_leaves_no_line_in_the_log(
    place: tuple[str, int], head: bytes, noise: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            answer = answer_to(place, head + noise)
            assert answer[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 400", b"")
    assert caplog.records == []


def test_a_whole_request_is_answered_though_noise_follows(place: tuple[str, int]) -> None:
    assert answer_to(place, HEAD + b"Connection: close\r\n\r\n" + b"\x00\xff").startswith(b"HTTP/1.1 200")


def test_a_body_that_is_not_http_is_refused(place: tuple[str, int]) -> None:
    post = b"POST /v2/models/ctr/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert answer_to(place, post + b"no length\r\n").startswith(b"HTTP/1.1 400")
