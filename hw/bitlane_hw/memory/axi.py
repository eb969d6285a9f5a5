"""AXI4 and AXI4-Lite signatures, seen from the master.

Widths follow Arm IHI 0022. Signals that a full-width, single-ID, in-order master never varies (lock, cache, qos,
region) are left out.
"""

from __future__ import annotations

from amaranth.lib.wiring import In, Out, Signature

from bitlane.contract.config import AcceleratorConfig

OKAY = 0b00
SLVERR = 0b10
DECERR = 0b11
INCR = 0b01


def port_name(config: AcceleratorConfig, name: str, port: int) -> str:
    """Return the name of something that each memory port has; with one port it has no number."""
    return name if config.ports == 1 else f"{name}{port}"


def memory_names(config: AcceleratorConfig) -> tuple[str, ...]:
    """Return the name of each memory port of an accelerator: m_axi, or m_axi0, m_axi1 and so on."""
    return tuple(port_name(config, "m_axi", port) for port in range(config.ports))


def full_size(data_bits: int) -> int:
    """Return AxSIZE of beats as wide as a port of `data_bits` bits."""
    return (data_bits // 8).bit_length() - 1


class AXI4Lite(Signature):
    """AXI4-Lite with 32-bit data.

    Parameters
    ----------
    address_bits : int
        Width of the byte addresses.
    """

    def __init__(self, address_bits: int):
        super().__init__(
            {
                "awaddr": Out(address_bits),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_bits),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


def _address_channel(prefix: str, address_bits: int) -> dict[str, In | Out]:
    """Return the members of an AR or AW channel."""
    return {
        f"{prefix}id": Out(1),
        f"{prefix}addr": Out(address_bits),
        f"{prefix}len": Out(8),
        f"{prefix}size": Out(3),
        f"{prefix}burst": Out(2),
        f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1),
    }


class AXI4Read(Signature):
    """The read channels of AXI4 with one ID bit.

    Parameters
    ----------
    address_bits : int
        Width of the byte addresses.
    data_bits : int
        Width of a beat.
    """

    def __init__(self, address_bits: int, data_bits: int):
        super().__init__(
            {
                **_address_channel("ar", address_bits),
                "rid": In(1),
                "rdata": In(data_bits),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class AXI4Write(Signature):
    """The write channels of AXI4 with one ID bit.

    Parameters
    ----------
    address_bits : int
        Width of the byte addresses.
    data_bits : int
        Width of a beat.
    """

    def __init__(self, address_bits: int, data_bits: int):
        super().__init__(
            {
                **_address_channel("aw", address_bits),
                "wdata": Out(data_bits),
                "wstrb": Out(data_bits // 8),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bid": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )


class AXI4(Signature):
    """AXI4 with all channels and one ID bit.

    Parameters
    ----------
    address_bits : int
        Width of the byte addresses.
    data_bits : int
        Width of a beat.
    """

    def __init__(self, address_bits: int, data_bits: int):
        super().__init__({**AXI4Read(address_bits, data_bits).members, **AXI4Write(address_bits, data_bits).members})
