"""A small database of project X-Ray's format, whose words a reader can compute by hand."""

from __future__ import annotations

import json
from pathlib import Path

PART = "xc7tiny1-1"
SEGBITS = {
    "segbits_clbll_l.db": """\
CLBLL_L.SLICEL_X0.ALUT.INIT[00] 32_15
CLBLL_L.SLICEL_X0.ALUT.INIT[01] 33_15
CLBLL_L.SLICEL_X0.ALUT.INIT[10] 32_47
CLBLL_L.SLICEL_X0.AFF.ZINI 31_03
CLBLL_L.SLICEL_X0.AOUTMUX.A5Q !30_06 30_07 30_40
CLBLL_L.SLICEL_X0.AOUTMUX.XOR 30_06 !30_07
""",
    "segbits_bram_l.db": "BRAM_L.RAMB18_Y0.ZINIT_A[0] 27_06\nBRAM_L.RAMB18_Y1.IN_USE 27_100 27_99\n",
    "segbits_bram_l.block_ram.db": "BRAM_L.RAMB18_Y0.INIT_00[000] 00_00\nBRAM_L.RAMB18_Y0.INIT_00[255] 01_319\n",
    "segbits_liob33.db": "LIOB33.IOB33_Y0.PULLUP 38_92\nLIOB33.IOB33_Y1.PULLUP 38_34\n",
    "segbits_cfg.db": "CFG.ALWAYS_ON 00_31\n",
    "ppips_clbll_l.db": "CLBLL_L.CLBLL_L_A.CLBLL_L_A_ALWAYS always\n",
    "ppips_pss0.db": "PSS0.HCLK.PSS_HCLK default\nPSS0.A.B hint\n",
}


def _place(address: str, offset: int, words: int, **more: object) -> dict[str, object]:
    return {"baseaddr": address, "frames": 42, "offset": offset, "words": words, **more}


def _single(start: int, sites: dict[str, str]) -> dict[str, object]:
    return {"type": "LIOB33", "start_offset": start, "sites": sites}


TILES = {
    "CLBLL_L_X0Y0": ("CLBLL_L", {"CLB_IO_CLK": _place("0x00400100", 0, 2)}),
    "CLBLL_L_X0Y1": ("CLBLL_L", {"CLB_IO_CLK": _place("0x00400100", 2, 2)}),
    "BRAM_L_X1Y0": (
        "BRAM_L",
        {"CLB_IO_CLK": _place("0x00400200", 10, 10), "BLOCK_RAM": _place("0x00C00000", 10, 10)},
    ),
    "BRAM_L_X1Y5": ("BRAM_L", {"CLB_IO_CLK": _place("0x00400200", 20, 10)}),  # no place in BLOCK_RAM
    "LIOB33_X2Y1": ("LIOB33", {"CLB_IO_CLK": _place("0x00400300", 2, 4)}),
    "LIOB33_SING_X2Y0": (
        "LIOB33_SING",
        {"CLB_IO_CLK": _place("0x00400300", 0, 2, alias=_single(2, {"IOB33_Y0": "IOB33_Y0"}))},
    ),
    "LIOB33_SING_X2Y49": (
        "LIOB33_SING",
        {"CLB_IO_CLK": _place("0x00400300", 99, 2, alias=_single(0, {"IOB33_Y0": "IOB33_Y1"}))},
    ),
    "PSS0_X3Y0": ("PSS0", {}),
    "CFG_X4Y0": ("CFG", {"CLB_IO_CLK": _place("0x00400400", 50, 1)}),
}


def write_database(root: Path) -> Path:
    """Write the database, of the part `PART`, below `root`, and return its folder."""
    fabric, part = root / "xc7tiny", root / PART
    for folder in (fabric, part):
        folder.mkdir(parents=True)
    grid = {name: {"type": kind, "bits": bits, "sites": {}} for name, (kind, bits) in TILES.items()}
    (fabric / "tilegrid.json").write_text(json.dumps(grid))
    (part / "part.yaml").write_text("idcode: 0x1\n")
    (part / "required_features.fasm").write_text("CFG_X4Y0.ALWAYS_ON\n")
    for name, text in SEGBITS.items():
        (root / name).write_text(text)
    return root
