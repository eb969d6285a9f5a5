"""The signals of the AXI3 ports against the specification."""

from __future__ import annotations

from amaranth.lib.wiring import Out

from bitlane_hw.zynq.axi3 import AXI3


def address_channel(prefix: str, id_bits: int) -> dict[str, tuple[int, int]]:
    bits = {"addr": 32, "len": 4, "size": 2, "burst": 2, "lock": 2, "cache": 4, "prot": 3, "qos": 4, "valid": 1}
    ours = {f"{prefix}{name}": (width, 1) for name, width in (bits | {"id": id_bits}).items()}
    return ours | {f"{prefix}ready": (1, 0)}


def test_signals() -> None:
    """Name, width, and whether the master drives the signal (Arm IHI 0022, AXI3 chapters)."""
    expected = {
        **address_channel("ar", 6),
        **address_channel("aw", 6),
        **{"rid": (6, 0), "rdata": (64, 0), "rresp": (2, 0), "rlast": (1, 0), "rvalid": (1, 0), "rready": (1, 1)},
        **{"wid": (6, 1), "wdata": (64, 1), "wstrb": (8, 1), "wlast": (1, 1), "wvalid": (1, 1), "wready": (1, 0)},
        **{"bid": (6, 0), "bresp": (2, 0), "bvalid": (1, 0), "bready": (1, 1)},
    }
    members = AXI3(32, 64, 6).members.items()
    assert {name: (member.shape, int(member.flow is Out)) for name, member in members} == expected
