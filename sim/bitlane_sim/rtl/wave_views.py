"""Views of a file of waves for GTKWave and Surfer: the clock, the buses and the data path in groups, enums as words."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from bitlane.contract.modes import ErrorCode

MAPPINGS = Path(".surfer") / "mappings"  # where Surfer, started in the same folder, finds the words of the enums


class AxiResponse(IntEnum):
    """BRESP and RRESP."""

    OKAY = 0
    EXOKAY = 1
    SLVERR = 2
    DECERR = 3


class ReadStream(IntEnum):
    """ARID and RID: the base stream (with models, labels and levels) or the draw stream."""

    BASE_STREAM = 0
    DRAW_STREAM = 1


WORDS = {words.__name__: words for words in (ErrorCode, AxiResponse, ReadStream)}
# The signals inside the top module, as name:bits:words. Without bits it is one; without words it is a number.
GROUPS = {
    "clock": "clk rst irq",
    "run": "busy done storing error:3:ErrorCode epoch:32",
    "registers": "s_axi_awvalid s_axi_awready s_axi_awaddr:12 s_axi_wvalid s_axi_wready s_axi_wdata:32 "
    "s_axi_arvalid s_axi_arready s_axi_araddr:12 s_axi_rvalid s_axi_rready s_axi_rdata:32",
    "memory, read": "m_axi_arvalid m_axi_arready m_axi_araddr:address m_axi_arlen:8 m_axi_arid:1:ReadStream "
    "m_axi_rvalid m_axi_rready m_axi_rdata:width m_axi_rid:1:ReadStream m_axi_rlast m_axi_rresp:2:AxiResponse",
    "memory, write": "m_axi_awvalid m_axi_awready m_axi_awaddr:address m_axi_awlen:8 m_axi_wvalid m_axi_wready "
    "m_axi_wdata:width m_axi_wlast m_axi_bvalid m_axi_bready m_axi_bresp:2:AxiResponse",
    "beats": "engine.sequencer.address_generator.loading engine.sequencer.address_generator.label_due "
    "engine.sequencer.taken engine.sequencer.digits__valid engine.sequencer.stall_memory engine.sequencer.stall_model",
    "first model": "engine.core_0.digits__valid engine.core_0.dots__valid engine.core_0.slopes__valid "
    "engine.core_0.passes__valid engine.core_0.epoch_done engine.sequencer.published",
}


class WaveSignal(NamedTuple):
    """A signal of the view.

    Attributes
    ----------
    name : str
        Its name inside the top module, with the names of instances in front.
    bits : int
    words : type of IntEnum, or None
        Words for its values.
    """

    name: str
    bits: int
    words: type[IntEnum] | None


def wave_groups(width: int, address_bits: int) -> dict[str, list[WaveSignal]]:
    """Return the signals of each group, for a build with this port."""
    sizes = {"width": width, "address": address_bits}

    def signal(text: str) -> WaveSignal:
        name, _, rest = text.partition(":")
        bits, _, words = rest.partition(":")
        return WaveSignal(name, sizes[bits] if bits in sizes else int(bits or 1), WORDS.get(words))

    return {group: [signal(text) for text in texts.split()] for group, texts in GROUPS.items()}


def write_views(waves: Path, top: str, width: int, address_bits: int) -> None:
    """Write `NAME.gtkw` and `NAME.sucl` beside the file of waves, and the words of the enums into `MAPPINGS`.

    Parameters
    ----------
    waves : Path
        The file, `NAME.fst` or `NAME.vcd`. It need not exist yet.
    top : str
        Scope of the top module in the file, such as "TOP.bitlane_accelerator".
    width, address_bits : int
        Of the memory port of the build.
    """
    folder = waves.parent / MAPPINGS
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in WORDS.items():
        lines = [f"{value.value:x} {value.name}" for value in words]
        (folder / name).write_text("\n".join(lines) + "\n")
    groups = wave_groups(width, address_bits)
    waves.with_suffix(".gtkw").write_text("\n".join(_gtkwave(waves, top, groups)) + "\n")
    waves.with_suffix(".sucl").write_text("\n".join(_surfer(top, groups)) + "\n")


def _gtkwave(waves: Path, top: str, groups: dict[str, list[WaveSignal]]) -> Iterator[str]:
    """Yield the lines of a save file. The flags are hexadecimal: 22 number, 28 bit, 2022 number by words."""
    yield f'[dumpfile] "{waves.resolve()}"'
    for group, signals in groups.items():
        yield from ("@800200", f"-{group}")
        for signal in signals:
            if signal.words is not None:
                yield from ("@2022", f"^1 {(waves.parent / MAPPINGS / signal.words.__name__).resolve()}")
            else:
                yield "@22" if signal.bits > 1 else "@28"
            yield f"{top}.{signal.name}" + (f"[{signal.bits - 1}:0]" if signal.bits > 1 else "")
        yield from ("@1000200", f"-{group}")


def _surfer(top: str, groups: dict[str, list[WaveSignal]]) -> Iterator[str]:
    """Yield commands. An item is focused by its number in hexadecimal digits a to p, to set its format."""
    number = 0
    for group, signals in groups.items():
        yield f"divider_add {group}"
        number += 1
        for signal in signals:
            yield f"variable_add {top}.{signal.name}"
            kind = "Clock" if signal.name == "clk" else signal.words.__name__ if signal.words else None
            if kind is not None:
                digits = "".join("abcdefghijklmnop"[int(digit, 16)] for digit in f"{number:02x}")
                yield from (f"item_focus {digits}", f"item_set_format {kind}", "item_unfocus")
            number += 1
    yield "zoom_fit"
