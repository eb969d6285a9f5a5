"""Signatures of the AXI3 ports of a Zynq-7000's processing system, and what its high-performance ports are told.

Seen from the side that starts transfers, like `bitlane_hw.memory.axi`. Signals, their widths and, in lower case, their
names are those of the PS7 primitive (UG585, chapter 5; Arm IHI 0022): AXI3 has bursts of at most 16 beats, and data
that names its burst (`wid`).
"""

from __future__ import annotations

from amaranth.lib import data
from amaranth.lib.wiring import In, Out, Signature

from bitlane_hw.memory.axi import INCR, full_size

BUFFERABLE = 0b0011  # AxCACHE: normal memory, which no cache looks up
FIXED, WRAP = 0b00, 0b10  # AxBURST, besides `INCR`
GP_DATA_BITS, GP_ID_BITS = 32, 12  # of M_AXI_GP0
HP_DATA_BITS, HP_ID_BITS = 64, 6  # of S_AXI_HP0 to 3


def _address_channel(prefix: str, address_bits: int, id_bits: int) -> dict[str, In | Out]:
    return {
        f"{prefix}id": Out(id_bits),
        f"{prefix}addr": Out(address_bits),
        f"{prefix}len": Out(4),
        f"{prefix}size": Out(2),
        f"{prefix}burst": Out(2),
        f"{prefix}lock": Out(2),
        f"{prefix}cache": Out(4),
        f"{prefix}prot": Out(3),
        f"{prefix}qos": Out(4),
        f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1),
    }


class AXI3(Signature):
    """AXI3, reads and writes.

    Parameters
    ----------
    address_bits, data_bits, id_bits: widths of addresses, which count bytes, of a beat and of an ID.
    """

    def __init__(self, address_bits: int, data_bits: int, id_bits: int):
        super().__init__(
            {
                **_address_channel("ar", address_bits, id_bits),
                "rid": In(id_bits),
                "rdata": In(data_bits),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
                **_address_channel("aw", address_bits, id_bits),
                "wid": Out(id_bits),
                "wdata": Out(data_bits),
                "wstrb": Out(data_bits // 8),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(id_bits),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


def gp_signature() -> AXI3:
    """M_AXI_GP0, on which the processors reach registers."""
    return AXI3(32, GP_DATA_BITS, GP_ID_BITS)


def hp_signature() -> AXI3:
    """One of S_AXI_HP0 to 3, on which the logic reaches the memory."""
    return AXI3(32, HP_DATA_BITS, HP_ID_BITS)


def whole_words(hp) -> list:
    """What does not change at an HP port: bursts of whole words to bufferable memory."""
    constant = {"size": full_size(HP_DATA_BITS), "burst": INCR, "cache": BUFFERABLE}
    return [getattr(hp, prefix + name).eq(value) for prefix in ("ar", "aw") for name, value in constant.items()]


# --- a channel as a stream, whose payload's fields are the channel's signals without their prefix
# AR of at most 16 beats, without and with an ID.
ADDRESS = data.StructLayout({"addr": 32, "len": 4})
TAGGED_ADDRESS = data.StructLayout({"id": 1, **ADDRESS.members})
ANSWER = data.StructLayout({"resp": 2})  # B, of bursts that have one ID


def read_layout(data_bits: int) -> data.StructLayout:
    """R, of bursts that have one ID, and whose lengths are known."""
    return data.StructLayout({"data": data_bits, "resp": 2})


def tagged_read_layout(data_bits: int) -> data.StructLayout:
    """R with an ID, and the mark of a burst's last beat."""
    return data.StructLayout({"id": 1, "data": data_bits, "resp": 2, "last": 1})


def write_layout(data_bits: int) -> data.StructLayout:
    """W."""
    return data.StructLayout({"data": data_bits, "strb": data_bits // 8, "last": 1})


def into_stream(port, prefix: str, stream) -> list:
    """Statements by which a port's channel feeds a stream."""
    return [
        stream.valid.eq(getattr(port, f"{prefix}valid")),
        getattr(port, f"{prefix}ready").eq(stream.ready),
        *(stream.payload[name].eq(getattr(port, prefix + name)) for name, _ in stream.payload.shape()),
    ]


def out_of_stream(stream, port, prefix: str) -> list:
    """Statements by which a stream feeds a port's channel."""
    return [
        getattr(port, f"{prefix}valid").eq(stream.valid),
        stream.ready.eq(getattr(port, f"{prefix}ready")),
        *(getattr(port, prefix + name).eq(stream.payload[name]) for name, _ in stream.payload.shape()),
    ]
