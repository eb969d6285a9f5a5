"""The server of PYNQ.remote in front of simulated hardware, for the unmodified client."""

# pynq has no types: its objects and messages are Any.
from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc
from pynq.remote import (
    buffer_pb2,
    buffer_pb2_grpc,
    mmio_pb2,
    mmio_pb2_grpc,
    remote_device_pb2,
    remote_device_pb2_grpc,
)

from bitlane_sim.rtl.device import RtlBuffer

from .board import Hardware

PIECE = 1 << 20  # bytes of a streamed message
FIRMWARE = "/lib/firmware/"
MANAGER = "/sys/class/fpga_manager/fpga0/"


class Files(remote_device_pb2_grpc.RemoteDeviceServicer):
    """The files that the client reads; a write of the FPGA manager's `firmware` loads a bitstream."""

    def __init__(self, hardware: Hardware):
        self._hardware = hardware
        self._files = {
            "/proc/version": f"Linux version 6.6 ({hardware.kind.arch})\n".encode(),
            "/proc/device-tree/chosen/pynq_board": hardware.kind.name.encode() + b"\0",
            "/proc/meminfo": f"CmaFree: {hardware.capacity_bytes // 1024 + 8192} kB\n".encode(),
            MANAGER + "state": b"operating\n",
            MANAGER + "flags": b"0\n",
        }

    def existsfile(self, request: Any, context: grpc.ServicerContext) -> Any:
        return remote_device_pb2.ExistsFileResponse(exists=request.file_path in self._files)

    def readfile(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        if request.file_path not in self._files:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no file {request.file_path}")
        yield remote_device_pb2.ReadFileResponse(data=self._files[request.file_path])

    def writefile(self, requests: Any, context: grpc.ServicerContext) -> Any:
        pieces = list(requests)
        path, data = pieces[0].file_path, b"".join(piece.data for piece in pieces)
        self._files[path] = data
        if path == MANAGER + "firmware":
            self._hardware.load(self._files[FIRMWARE + data.decode()], self._clock_mhz())
        return remote_device_pb2.WriteFileResponse()

    def set_bitstream_attrs(self, request: Any, context: grpc.ServicerContext) -> Any:
        return remote_device_pb2.SetBitstreamAttrsResponse(status=True)

    def _clock_mhz(self) -> float:
        """Return the frequency of PL clock 0 from the processor's registers, which the client sets."""
        kind = self._hardware.kind
        ultrascale = kind.arch == "aarch64"
        control = self._hardware.read(0xFF5E_00C0 if ultrascale else 0xF800_0170)
        first, second = control >> 8 & 63, control >> (16 if ultrascale else 20) & 63
        return kind.pll_mhz / first / second


class MmioService(mmio_pb2_grpc.MmioServicer):
    """Access to words on the bus."""

    def __init__(self, hardware: Hardware):
        self._hardware = hardware
        self._numbers = itertools.count()
        self._bases: dict[str, int] = {}

    def get_mmio(self, request: Any, context: grpc.ServicerContext) -> Any:
        name = str(next(self._numbers))
        self._bases[name] = request.base_addr
        return mmio_pb2.GetMmioResponse(mmio_id=name)

    def read(self, request: Any, context: grpc.ServicerContext) -> Any:
        value = self._hardware.read(self._bases[request.mmio_id] + request.offset)
        signed = mmio_pb2.ReadResponse.DESCRIPTOR.fields_by_name["data"].type == 5  # int32, so the top bit is a sign
        return mmio_pb2.ReadResponse(data=value - (1 << 32) if signed and value >> 31 else value)

    def write(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Write the first word only, as the server on a board does."""
        value = int.from_bytes(request.data[:4], "little")
        self._hardware.write(self._bases[request.mmio_id] + request.offset, value)
        return mmio_pb2.WriteResponse()


class Buffers(buffer_pb2_grpc.RemoteBufferServicer):
    """Contiguous memory: the client reads, writes and flushes the processor's copy."""

    def __init__(self, hardware: Hardware):
        self._hardware = hardware
        self._numbers = itertools.count()
        self.live: dict[str, RtlBuffer] = {}

    def allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        assert self._hardware.rtl is not None
        try:
            memory = self._hardware.rtl.allocate(request.size)
        except Exception:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Failed to allocate Memory!")
        name = str(next(self._numbers))
        self.live[name] = memory
        return buffer_pb2.AllocateResponse(buffer_id=name)

    def write(self, requests: Any, context: grpc.ServicerContext) -> Any:
        offset = 0
        for request in requests:
            bytes_of = self.live[request.buffer_id].array.view("u1")
            if offset + len(request.data) > len(bytes_of):
                return buffer_pb2.BufferWriteResponse(msg="Buffer overflow.")
            bytes_of[offset : offset + len(request.data)] = memoryview(request.data)
            offset += len(request.data)
        return buffer_pb2.BufferWriteResponse()

    def read(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        data = self.live[request.buffer_id].array.tobytes()
        for offset in range(0, len(data), PIECE):
            yield buffer_pb2.BufferReadResponse(data=data[offset : offset + PIECE])

    def flush(self, request: Any, context: grpc.ServicerContext) -> Any:
        assert self._hardware.rtl is not None
        self._hardware.rtl.flush(self.live[request.buffer_id])
        return buffer_pb2.FlushResponse()

    def invalidate(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._hardware.catch_up()
        assert self._hardware.rtl is not None
        self._hardware.rtl.invalidate(self.live[request.buffer_id])
        return buffer_pb2.InvalidateResponse()

    def physical_address(self, request: Any, context: grpc.ServicerContext) -> Any:
        return buffer_pb2.AddressResponse(address=self.live[request.buffer_id].device_address)

    def virtual_address(self, request: Any, context: grpc.ServicerContext) -> Any:
        return buffer_pb2.AddressResponse(address=self.live[request.buffer_id].array.ctypes.data)

    def freebuffer(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.live.pop(request.buffer_id).free()
        return buffer_pb2.FreeBufferResponse()


class Server:
    """A server of one board on this machine, until `stop`. It is a context manager.

    Attributes
    ----------
    port : int
        The port of the server.
    buffers : Buffers
        The buffers of the clients.
    """

    def __init__(self, hardware: Hardware, port: int = 0):
        self._server = grpc.server(ThreadPoolExecutor(max_workers=1))  # the simulator is for one thread at a time
        self.buffers = Buffers(hardware)
        remote_device_pb2_grpc.add_RemoteDeviceServicer_to_server(Files(hardware), self._server)
        mmio_pb2_grpc.add_MmioServicer_to_server(MmioService(hardware), self._server)
        buffer_pb2_grpc.add_RemoteBufferServicer_to_server(self.buffers, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()

    def stop(self) -> None:
        """End all calls, like an unplugged cable."""
        self._server.stop(grace=None).wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()
