"""The signals of the AXI ports against the AXI4 specification (Arm IHI 0022)."""

from __future__ import annotations

import pytest
from amaranth.lib.wiring import Out

from bitlane_hw.memory.axi import DECERR, INCR, OKAY, SLVERR, AXI4Lite, AXI4Read, AXI4Write, full_size

# Name, width, and whether the master drives the signal.
LITE = {
    **{"awaddr": (12, 1), "awprot": (3, 1), "awvalid": (1, 1), "awready": (1, 0)},
    **{"wdata": (32, 1), "wstrb": (4, 1), "wvalid": (1, 1), "wready": (1, 0)},
    **{"bresp": (2, 0), "bvalid": (1, 0), "bready": (1, 1)},
    **{"araddr": (12, 1), "arprot": (3, 1), "arvalid": (1, 1), "arready": (1, 0)},
    **{"rdata": (32, 0), "rresp": (2, 0), "rvalid": (1, 0), "rready": (1, 1)},
}


def address_channel(prefix: str) -> dict[str, tuple[int, int]]:
    bits = {"id": 1, "addr": 40, "len": 8, "size": 3, "burst": 2, "valid": 1}
    return {**{f"{prefix}{name}": (width, 1) for name, width in bits.items()}, f"{prefix}ready": (1, 0)}


READ = {
    **address_channel("ar"),
    **{"rid": (1, 0), "rdata": (128, 0), "rresp": (2, 0), "rlast": (1, 0), "rvalid": (1, 0), "rready": (1, 1)},
}
WRITE = {
    **address_channel("aw"),
    **{"wdata": (128, 1), "wstrb": (16, 1), "wlast": (1, 1), "wvalid": (1, 1), "wready": (1, 0)},
    **{"bid": (1, 0), "bresp": (2, 0), "bvalid": (1, 0), "bready": (1, 1)},
}


@pytest.mark.parametrize(
    ("signature", "expected"),
    [(AXI4Lite(12), LITE), (AXI4Read(40, 128), READ), (AXI4Write(40, 128), WRITE)],
    ids=["lite", "read", "write"],
)
def test_signals(signature, expected):
    members = signature.members.items()
    assert {name: (member.shape, int(member.flow is Out)) for name, member in members} == expected


def test_codes():
    assert (OKAY, SLVERR, DECERR, INCR) == (0, 2, 3, 1)


@pytest.mark.parametrize(("bits", "size"), [(8, 0), (64, 3), (128, 4), (256, 5), (512, 6)])
def test_size(bits, size):
    assert full_size(bits) == size
