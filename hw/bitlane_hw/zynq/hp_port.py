"""The high-performance memory ports of two families of chips, and the channels of a port as streams.

The fields of a payload are the signals of its channel without their prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.lib import data
from amaranth.lib.wiring import Signature

from bitlane_hw.memory.axi import AXI4, INCR, full_size

from .axi3 import BUFFERABLE, HP_DATA_BITS, hp_signature

WRITE_RESPONSE = data.StructLayout({"resp": 2})  # B, for bursts with the same ID


@dataclass(frozen=True)
class HpPort:
    """A high-performance port, as the logic sees it.

    Parameters
    ----------
    address_bits : int
        Width of the byte addresses.
    data_bits : int
        Width of a beat.
    is_axi3 : bool
        AXI3 with the signals of a Zynq-7000, or AXI4 with those that the accelerator varies.
    """

    address_bits: int
    data_bits: int
    is_axi3: bool

    @property
    def signature(self) -> Signature:
        """The signals of a port."""
        return hp_signature() if self.is_axi3 else AXI4(self.address_bits, self.data_bits)

    @property
    def address(self) -> data.StructLayout:
        """Layout of AR of at most 16 beats, without an ID."""
        return data.StructLayout({"addr": self.address_bits, "len": 4})

    @property
    def tagged_address(self) -> data.StructLayout:
        """Layout of AR of at most 16 beats, with an ID."""
        return data.StructLayout({"id": 1, **self.address.members})

    @property
    def word_bytes(self) -> int:
        """Bytes of a beat of the port, here a word."""
        return self.data_bits // 8

    def constant_signals(self, hp) -> list:
        """Return statements for the constant signals: bursts of full words, with AXI3 to bufferable memory."""
        constant = {"size": full_size(self.data_bits), "burst": INCR}
        constant |= {"cache": BUFFERABLE} if self.is_axi3 else {}
        return [getattr(hp, prefix + name).eq(value) for prefix in ("ar", "aw") for name, value in constant.items()]


ZYNQ_7000 = HpPort(32, HP_DATA_BITS, is_axi3=True)  # S_AXI_HP0 to 3
ULTRASCALE_DATA_BITS = 128  # of S_AXI_HP0_FPD to 3


def read_layout(data_bits: int) -> data.StructLayout:
    """Return the layout of R, for bursts with the same ID and of known length."""
    return data.StructLayout({"data": data_bits, "resp": 2})


def tagged_read_layout(data_bits: int) -> data.StructLayout:
    """Return the layout of R with an ID, and with a mark on the last beat of a burst."""
    return data.StructLayout({"id": 1, "data": data_bits, "resp": 2, "last": 1})


def write_layout(data_bits: int) -> data.StructLayout:
    """Return the layout of W."""
    return data.StructLayout({"data": data_bits, "strb": data_bits // 8, "last": 1})


def port_to_stream(port, prefix: str, stream) -> list:
    """Return statements that connect a channel of a port to a stream."""
    return [
        stream.valid.eq(getattr(port, f"{prefix}valid")),
        getattr(port, f"{prefix}ready").eq(stream.ready),
        *(stream.payload[name].eq(getattr(port, prefix + name)) for name, _ in stream.payload.shape()),
    ]


def stream_to_port(stream, port, prefix: str) -> list:
    """Return statements that connect a stream to a channel of a port."""
    return [
        getattr(port, f"{prefix}valid").eq(stream.valid),
        stream.ready.eq(getattr(port, f"{prefix}ready")),
        *(getattr(port, prefix + name).eq(stream.payload[name]) for name, _ in stream.payload.shape()),
    ]
