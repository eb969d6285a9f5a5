"""The simulated boards, and bitstreams for them."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from bitlane.contract.config import AcceleratorConfig
from bitlane.errors import DeviceError
from bitlane_hw.build_digest import build_digest
from bitlane_hw.export.hwh import ZYNQ, ZYNQ_ULTRASCALE, System, hwh


@dataclass(frozen=True)
class BoardKind:
    """A kind of board.

    Parameters
    ----------
    name : str
        Name in pynq.
    system : System
        Names of its processing system in the handoff.
    arch : str
        Architecture of its processor in Linux.
    pll_mhz : float
        Frequency of the PLL for the PL clocks.
    processor : dict of int to int
        Registers of the processor when an overlay is loaded: address -> value. Those of the PLL and the clocks; on
        Zynq-7000 also the width of the memory ports, which a boot loader has left at 32 bits.
    config : AcceleratorConfig
        The accelerator in its overlay.
    """

    name: str
    system: System
    arch: str
    pll_mhz: float
    processor: dict[int, int]
    config: AcceleratorConfig


# The I/O PLL's feedback divisors: 50 MHz * 20 on Zynq-7000 (UG585), 33.333 MHz * 45 on UltraScale+ (UG1087).
PYNQ_Z2 = BoardKind(
    name="Pynq-Z2",
    system=ZYNQ,
    arch="armv7l",
    pll_mhz=1000.0,
    processor={
        0xF800_0108: 20 << 12,
        **{0xF800_0170 + 0x10 * i: 1 << 20 | 10 << 8 for i in range(4)},
        **{0xF800_8000 + 0x1000 * i + channel: 0xF01 for i in range(4) for channel in (0x00, 0x14)},
    },
    config=AcceleratorConfig(address_bits=32),
)
ZCU104 = BoardKind(
    name="ZCU104",
    system=ZYNQ_ULTRASCALE,
    arch="aarch64",
    pll_mhz=1500.0,
    processor={0xFF5E_0020: 45 << 8, **{0xFF5E_00C0 + 4 * i: 1 << 24 | 1 << 16 | 15 << 8 for i in range(4)}},
    config=AcceleratorConfig(width=128),
)


def write_overlay(
    kind: BoardKind,
    folder: Path,
    divisors: tuple[int, int] = (10, 1),
    name: str = "bitlane",
    build: int | None = None,
    interrupt: bool = False,
) -> Path:
    """Write a .bit for a simulated board, and its .hwh.

    Parameters
    ----------
    kind : BoardKind
        The board.
    folder : Path
        Folder of both files.
    divisors : (int, int)
        Divisors of the PLL for the clock of the accelerator.
    name : str
        Name of both files.
    build : int, optional
        The build in the handoff. The default is the correct one.
    interrupt : bool
        Whether the handoff has an interrupt controller.

    Returns
    -------
    Path
        The .bit.
    """
    # The file has the build because pynq caches its metadata under the hash of the content.
    text = json.dumps({"build": build_digest(kind.config), "config": asdict(kind.config)}).encode()
    words = text + b" " * (-len(text) % 4)
    if build is None:
        build = build_digest(kind.config)
    bit = folder / f"{name}.bit"
    bit.write_bytes(_bit_header(kind.name, len(words)) + words)
    clock = kind.pll_mhz / divisors[0] / divisors[1]
    bit.with_suffix(".hwh").write_text(hwh(kind.system, kind.config, kind.name, divisors, clock, build, interrupt))
    return bit


def config_in(content: bytes) -> AcceleratorConfig:
    """Return the accelerator in a .bit of `write_overlay`, or in pynq's conversion of it for the FPGA manager.

    Raises DeviceError for a real bitstream.
    """
    for data in (content, _swapped(content)):
        start = data.find(b"{")
        try:
            return AcceleratorConfig(**json.loads(data[start:])["config"])
        except (ValueError, KeyError, TypeError):
            continue
    raise DeviceError("the bitstream is for a real board; this one is simulated")


def _bit_header(name: str, length: int) -> bytes:
    """Return the header of a .bit: constant bytes, four texts and the length."""
    fields = b"".join(
        key + struct.pack(">H", len(text) + 1) + text + b"\0"
        for key, text in ((b"a", name.encode()), (b"b", b"simulated"), (b"c", b"-"), (b"d", b"-"))
    )
    return bytes.fromhex("0009 0ff0 0ff0 0ff0 0ff0 00 0001") + fields + b"e" + struct.pack(">I", length)


def _swapped(content: bytes) -> bytes:
    """Return the data with the bytes of each 32-bit word in reverse order."""
    return b"".join(content[i : i + 4][::-1] for i in range(0, len(content), 4))
