"""A board on the network, through the client of PYNQ.remote."""

# pynq has no types: its objects and messages are Any.
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from pynq.pl_server.remote_device import PYNQ_PORT, RemoteDevice
from pynq.remote import buffer_pb2_grpc, mmio_pb2_grpc, remote_device_pb2_grpc

from bitlane.errors import DataError

from .errors import wrap_errors

CALL_SECONDS = 5.0  # that a board may take to answer; an unplugged board never answers
STREAM_SECONDS = 300.0  # the same for a complete buffer
RETRY = [(f"grpc.{name}_reconnect_backoff_ms", 500) for name in ("initial", "min", "max")]  # of a lost connection


def connect(address: str) -> RemoteDevice:
    """Return the board at an address. Its calls fail after some seconds if it does not answer.

    Parameters
    ----------
    address : str
        ``"HOST"`` or ``"HOST:PORT"``.

    Raises
    ------
    DataError
        The port is not a number.
    DeviceError
        No board answers at the address.
    """
    host, _, port = address.partition(":")
    if port and not port.isdigit():
        raise DataError(f"device='pynq://{address}': the port {port!r} is not a number")
    with wrap_errors(f"pynq://{address}", "connecting"):
        board = RemoteDevice(0, ip_addr=host, port=int(port or PYNQ_PORT))
        board.client.channel.close()
        board.client.channel = grpc.insecure_channel(f"{host}:{port or PYNQ_PORT}", options=RETRY)
        channel = grpc.intercept_channel(board.client.channel, _Deadline())
        board._stub = {
            "device": remote_device_pb2_grpc.RemoteDeviceStub(channel),
            "mmio": mmio_pb2_grpc.MmioStub(channel),
            "buffer": buffer_pb2_grpc.RemoteBufferStub(channel),
        }
        return board


class _Deadline(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor):
    """Gives every call a deadline until which a lost board may come back. Without it pynq waits forever."""

    def intercept_unary_unary(self, call: Callable[..., Any], details: grpc.ClientCallDetails, request: Any) -> Any:
        return call(details._replace(timeout=CALL_SECONDS, wait_for_ready=True), request)

    def intercept_unary_stream(self, call: Callable[..., Any], details: grpc.ClientCallDetails, request: Any) -> Any:
        return call(details._replace(timeout=STREAM_SECONDS, wait_for_ready=True), request)

    def intercept_stream_unary(self, call: Callable[..., Any], details: grpc.ClientCallDetails, requests: Any) -> Any:
        return call(details._replace(timeout=STREAM_SECONDS, wait_for_ready=True), requests)
