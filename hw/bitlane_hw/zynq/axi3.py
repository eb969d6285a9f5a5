"""AXI3 signatures of the processing system of a Zynq-7000, seen from the master.

Signals, widths and, in lower case, names are those of the PS7 primitive (UG585, chapter 5; Arm IHI 0022). AXI3 has
bursts of at most 16 beats, and write data that names its burst (`wid`).
"""

from __future__ import annotations

from amaranth.lib.wiring import In, Out, Signature

BUFFERABLE = 0b0011  # AxCACHE: normal non-cacheable bufferable memory
FIXED, WRAP = 0b00, 0b10  # AxBURST; see also `bitlane_hw.memory.axi.INCR`
GP_DATA_BITS, GP_ID_BITS = 32, 12  # of M_AXI_GP0
HP_DATA_BITS, HP_ID_BITS = 64, 6  # of S_AXI_HP0 to 3


def _address_channel(prefix: str, address_bits: int, id_bits: int) -> dict[str, In | Out]:
    """Return the members of an AR or AW channel."""
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
    """AXI3 with all channels.

    Parameters
    ----------
    address_bits : int
        Width of the byte addresses.
    data_bits : int
        Width of a beat.
    id_bits : int
        Width of an ID.
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
    """Return the signature of M_AXI_GP0, through which the processors access registers."""
    return AXI3(32, GP_DATA_BITS, GP_ID_BITS)


def hp_signature() -> AXI3:
    """Return the signature of S_AXI_HP0 to 3, through which the logic accesses the memory."""
    return AXI3(32, HP_DATA_BITS, HP_ID_BITS)
