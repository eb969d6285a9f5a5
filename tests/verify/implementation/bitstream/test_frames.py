"""From features to frames with a small database; the expected words are computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.bitstreams import PART, write_database

from bitlane.errors import BitlaneError
from bitlane_verify.implementation.bitstream.database import Database
from bitlane_verify.implementation.bitstream.fasm import parse
from bitlane_verify.implementation.bitstream.frames import Frames, assemble, difference, from_bitread, to_frm

REQUIRED = {(0x400400, 50): 1 << 31}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_database(tmp_path_factory.mktemp("database"))


def made(root: Path, text: str) -> Frames:
    return assemble(parse(text, "a.fasm"), Database(root, PART))


def words(frames: Frames) -> dict[tuple[int, int], int]:
    """Return the words that are not 0 by (frame, word)."""
    assert all(len(frame) == 101 for frame in frames.values())
    return {(address, index): word for address, frame in frames.items() for index, word in enumerate(frame) if word}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {}),
        # 31_03: frame 0x400100 + 31, bit 3 of the tile's first word, which is word 0 or word 2
        ("CLBLL_L_X0Y0.SLICEL_X0.AFF.ZINI", {(0x40011F, 0): 0x8}),
        ("CLBLL_L_X0Y1.SLICEL_X0.AFF.ZINI", {(0x40011F, 2): 0x8}),
        # a vector whose indices the database pads; 47 is bit 15 of the second word
        (
            "CLBLL_L_X0Y0.SLICEL_X0.ALUT.INIT[63:0] = 64'b10000000011",
            {(0x400120, 0): 0x8000, (0x400121, 0): 0x8000, (0x400120, 1): 0x8000},
        ),
        # a bit that has to be 0 makes no word; 40 is bit 8 of the second word
        ("CLBLL_L_X0Y0.SLICEL_X0.AOUTMUX.A5Q", {(0x40011E, 0): 0x80, (0x40011E, 1): 0x100}),
        # two features of different tiles in one frame, twice the same feature
        (
            "CLBLL_L_X0Y0.SLICEL_X0.AFF.ZINI\nCLBLL_L_X0Y1.SLICEL_X0.AFF.ZINI\nCLBLL_L_X0Y0.SLICEL_X0.AFF.ZINI",
            {(0x40011F, 0): 0x8, (0x40011F, 2): 0x8},
        ),
        # a block RAM: its wiring on one bus, its contents on the other; 319 is bit 31 of word 9
        ("BRAM_L_X1Y0.RAMB18_Y0.ZINIT_A[0]", {(0x40021B, 10): 0x40}),
        ("BRAM_L_X1Y0.RAMB18_Y1.IN_USE", {(0x40021B, 13): 0x18}),
        (
            "BRAM_L_X1Y0.RAMB18_Y0.INIT_00[255:0] = 256'h8" + "0" * 62 + "1",
            {(0xC00000, 10): 0x1, (0xC00001, 19): 0x80000000},
        ),
        # a pair of pads, and the single ones at the ends of a column, which borrow half of its features
        ("LIOB33_X2Y1.IOB33_Y0.PULLUP", {(0x400326, 4): 1 << 28}),
        ("LIOB33_SING_X2Y0.IOB33_Y0.PULLUP", {(0x400326, 0): 1 << 28}),
        ("LIOB33_SING_X2Y49.IOB33_Y0.PULLUP", {(0x400326, 100): 1 << 2}),
        # connections without bits
        ("PSS0_X3Y0.HCLK.PSS_HCLK\nPSS0_X3Y0.A.B\nCLBLL_L_X0Y0.CLBLL_L_A.CLBLL_L_A_ALWAYS", {}),
    ],
)
def test_words_by_hand(root: Path, text: str, wanted: dict[tuple[int, int], int]) -> None:
    assert words(made(root, text)) == {**wanted, **REQUIRED}


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("INT_L_X9Y9.A.B", r"a\.fasm, line 2: xc7tiny1-1 has no tile INT_L_X9Y9"),
        (
            "CLBLL_L_X0Y0.SLICEL_X0.AFF.ZRST",
            r"2: .* feature SLICEL_X0\.AFF\.ZRST of tile CLBLL_L_X0Y0 \(CLBLL_L\)",
        ),
        ("CLBLL_L_X0Y0.SLICEL_X0.ALUT.INIT[64]", r"feature SLICEL_X0\.ALUT\.INIT\[64\]"),
        ("CLBLL_L_X0Y0.SLICEL_X0.ALUT.INIT", "does not know feature"),
        ("LIOB33_SING_X2Y0.IOB33_Y1.NOTHING", r"tile LIOB33_SING_X2Y0 \(LIOB33_SING\)"),
        ("PSS0_X3Y0.A.C", "does not know feature"),
        ("BRAM_L_X1Y5.RAMB18_Y0.INIT_00[0]", r"feature RAMB18_Y0\.INIT_00\[0\] of tile BRAM_L_X1Y5"),
    ],
)
def test_unknown_features_are_refused(root: Path, feature: str, message: str) -> None:
    with pytest.raises(BitlaneError, match=message):
        made(root, f"CLBLL_L_X0Y0.SLICEL_X0.AFF.ZINI\n{feature}\n")


@pytest.mark.parametrize("order", [("A5Q", "XOR"), ("XOR", "A5Q")])
def test_conflicting_bits_are_refused(root: Path, order: tuple[str, str]) -> None:
    """In both orders: one feature sets a bit that the other clears."""
    first, second = order
    does, did = ("sets", "clears") if second == "XOR" else ("clears", "sets")
    message = (
        rf"a\.fasm, line 2: feature SLICEL_X0\.AOUTMUX\.{second} of tile CLBLL_L_X0Y0 {does} bit 6 of word 0 "
        rf"of frame 0x0040011E, which SLICEL_X0\.AOUTMUX\.{first} of CLBLL_L_X0Y0 \(a\.fasm, line 1\) {did}"
    )
    with pytest.raises(BitlaneError, match=message):
        made(root, "".join(f"CLBLL_L_X0Y0.SLICEL_X0.AOUTMUX.{name}\n" for name in order))


def test_a_missing_part_is_an_error(root: Path) -> None:
    with pytest.raises(BitlaneError, match=r"has no .*part\.yaml: is xc7other one of its parts"):
        Database(root, "xc7other")


def test_an_invalid_bit_is_an_error(tmp_path: Path) -> None:
    root = write_database(tmp_path)
    (root / "segbits_cfg.db").write_text("CFG.ALWAYS_ON <const0>\n")
    with pytest.raises(BitlaneError, match=r"segbits_cfg\.db: '<const0>' is not a bit; bits look like 28_15"):
        made(root, "")


def test_the_digest_is_that_of_the_database(tmp_path: Path) -> None:
    before, again = (Database(write_database(tmp_path / name), PART) for name in "ab")
    text = "CLBLL_L_X0Y0.SLICEL_X0.AFF.ZINI"
    for database in (before, again):
        assemble(parse(text, "a.fasm"), database)
    assert before.digest == again.digest
    (tmp_path / "b" / "segbits_clbll_l.db").write_text("CLBLL_L.SLICEL_X0.AFF.ZINI 31_04\n")
    changed = Database(tmp_path / "b", PART)
    assemble(parse(text, "a.fasm"), changed)
    assert changed.digest != before.digest


def test_the_text_for_xc7frames2bit() -> None:
    frames = {0x400100: [0xABC, *[0] * 99, 1], 0x20: [0] * 101}
    lines = to_frm(frames).splitlines()
    assert [line[:22] for line in lines] == ["0x00000020 0x00000000,", "0x00400100 0x00000ABC,"]
    assert [line.count(",") for line in lines] == [100, 100]
    assert lines[1].endswith(",0x00000000,0x00000001")


def read_back(frames: Frames) -> str:
    """Return frames in bitread's format: six words per line, a space after each."""
    blocks = []
    for address, frame in frames.items():
        rows = [frame[start : start + 6] for start in range(0, 101, 6)]
        blocks.append(f".frame 0x{address:08x}\n" + "".join("".join(f"{w:08x} " for w in row) + "\n" for row in rows))
    return "\n".join(blocks) + "\n"


def test_the_output_of_bitread_is_compared() -> None:
    wanted = {0x400100: [7, *[0] * 100]}
    whole = {0x400000: [0] * 101, **wanted}
    assert from_bitread(read_back(whole)) == whole
    assert difference(wanted, from_bitread(read_back(whole))) is None
    assert difference(wanted, {0x400000: [0] * 101}) == "frame 0x00400100 is missing"
    flipped = {0x400000: [0, 0, 4, *[0] * 98], **wanted}
    assert difference(wanted, flipped) == "word 2 of frame 0x00400000 is 0x00000004 instead of 0x00000000"
    lost = {0x400000: [0] * 101, 0x400100: [0] * 101}
    assert difference(wanted, lost) == "word 0 of frame 0x00400100 is 0x00000000 instead of 0x00000007"


@pytest.mark.parametrize("text", [".frame 0x00000000\n00000000 \n", "Error\n", "x\n.frame 0x0\n" + "00000000 " * 101])
def test_other_text_than_bitreads_is_an_error(text: str) -> None:
    with pytest.raises(BitlaneError, match="frames of 101 words"):
        from_bitread(text)
