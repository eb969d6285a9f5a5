"""The waveform of one batch, from a simulation of the RTL: `python docs/_drawings/batch.py` writes batch.svg.

A batch of 4 rows of 64 features, stored with 4 bits, on a port of 64 bits. The memory has no stalls.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from bitlane import SGDRegressor
from bitlane.contract.config import AcceleratorConfig
from bitlane_sim.rtl.device import RtlDevice

ROWS, FEATURES, BITS = 4, 64, 4
BEATS = FEATURES // 32 * BITS // 2  # of a row
CONFIG = AcceleratorConfig(max_features=256, row_buffer_beats=256, fifo_beats=64)
TOP = "TOP.bitlane_accelerator"
SEQUENCER, CORE = f"{TOP}.engine.sequencer", f"{TOP}.engine.core_0"
DIGITS, PUBLISHED = f"{SEQUENCER}.digits__valid", f"{SEQUENCER}.published"
SIGNALS = {
    f"{TOP}.m_axi_rvalid": "memory: a beat arrives",
    f"{SEQUENCER}.taken": "sequencer takes a beat",
    DIGITS: "digits to the lanes",
    f"{SEQUENCER}.stall_model": "waits for the model",
    f"{CORE}.dots__valid": "dot products of a row",
    f"{CORE}.slopes__valid": "slope of the loss",
    f"{CORE}.passes__valid": "gradient into the weights",
    PUBLISHED: "new model readable",
}
COLOURS = {DIGITS: "#0072b2", PUBLISHED: "#d55e00"}
LEFT, CYCLE, LINE, TOP_MARGIN = 190, 12, 26, 58


def simulate(folder: Path) -> Path:
    """Return the waves of a training of three batches."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (3 * ROWS, FEATURES))
    model = SGDRegressor(bits=BITS, epochs=1, batch_size=ROWS, learning_rate=0.05, random_state=0)
    with RtlDevice(CONFIG, waves=folder / "waves.vcd") as device:
        model.device = device
        model.fit(X, X[:, 0])
    return folder / "waves.vcd"


def cycles(waves: Path, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the values of signals of one bit before each rising edge of the clock."""
    codes, values = {}, {}
    changes = _changes(waves, codes)
    clock = f"{TOP}.clk"
    found: dict[str, list[int]] = {name: [] for name in names}
    for block in changes:
        if block.get(codes[clock]) == "1" and values.get(codes[clock]) == "0":
            for name in names:
                found[name].append(int(values.get(codes[name]) == "1"))
        values |= block
    return found


def _changes(waves: Path, codes: dict[str, str]) -> Iterator[dict[str, str]]:
    """Fill `codes` with the code of each signal, and yield the changed values of each moment by their codes."""
    scopes: list[str] = []
    with waves.open() as file:
        for line in file:
            words = line.split()
            if words[:1] == ["$scope"]:
                scopes.append(words[2])
            elif words[:1] == ["$upscope"]:
                scopes.pop()
            elif words[:1] == ["$var"]:
                codes[".".join([*scopes, words[4]])] = words[3]
            elif words[:1] == ["$enddefinitions"]:
                break
        block: dict[str, str] = {}
        for line in file:
            if line.startswith("#"):
                yield block
                block = {}
            elif line[0] in "01":
                block[line[1:].strip()] = line[0]
    yield block


def window(found: dict[str, list[int]]) -> tuple[range, int, int]:
    """Return the cycles to draw, and those of the last digit of the second batch and of the first digit after it."""
    digits = np.flatnonzero(found[DIGITS])
    last, following = (int(digits[2 * ROWS * BEATS + i]) for i in (-1, 0))
    return range(int(digits[ROWS * BEATS]) - 4, following + 2 * BEATS), last, following


def svg(found: dict[str, list[int]]) -> str:
    """Return the drawing."""
    shown, last, following = window(found)
    width, height = LEFT + CYCLE * len(shown) + 10, TOP_MARGIN + LINE * (len(SIGNALS) + 1)

    def x(cycle: int) -> int:
        return LEFT + CYCLE * (cycle - shown.start)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f"<title>One batch of {ROWS} rows: from its first digit to those of the next</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for cycle in shown:
        dark = (cycle - shown.start) % 10 == 0
        end = TOP_MARGIN + LINE * len(SIGNALS)
        stroke = "#999" if dark else "#e5e5e5"
        lines.append(f'<path d="M{x(cycle)} {TOP_MARGIN - 4}V{end}" stroke="{stroke}" stroke-width="0.6"/>')
        if dark:
            lines.append(f'<text x="{x(cycle)}" y="{end + 15}" text-anchor="middle">{cycle - shown.start}</text>')
    lines.append(f'<text x="8" y="{TOP_MARGIN + LINE * len(SIGNALS) + 15}">clock cycle</text>')
    first = int(np.flatnonzero(found[DIGITS])[ROWS * BEATS])
    for row in range(ROWS):
        middle = x(first + row * BEATS) + CYCLE * BEATS // 2
        lines.append(f'<text x="{middle}" y="{TOP_MARGIN - 10}" text-anchor="middle">row {row}</text>')
    lines += _span(x(last), x(following), f"{following - last} cycles")
    for number, (name, label) in enumerate(SIGNALS.items()):
        y = TOP_MARGIN + LINE * number
        lines.append(f'<text x="8" y="{y + 15}">{escape(label)}</text>')
        for cycle in shown:
            if found[name][cycle]:
                colour = COLOURS.get(name, "#56b4e9")
                lines.append(f'<rect x="{x(cycle)}" y="{y + 3}" width="{CYCLE}" height="{LINE - 8}" fill="{colour}"/>')
    return "\n".join([*lines, "</svg>", ""])


def _span(left: int, right: int, label: str) -> list[str]:
    """Return a line with ends between two places, and its label."""
    return [
        f'<path d="M{left} 34v8m0 -4H{right}m0 -4v8" stroke="#d55e00" fill="none"/>',
        f'<text x="{(left + right) // 2}" y="28" text-anchor="middle" fill="#d55e00">{label}</text>',
    ]


def main() -> None:
    """Simulate and draw; `--out` names another folder."""
    parser = argparse.ArgumentParser(description="Draw batch.svg from a simulation.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, metavar="DIR", help="(docs/_drawings)")
    folder: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as name:
        found = cycles(simulate(Path(name)), list(SIGNALS))
    (folder / "batch.svg").write_text(svg(found))
    _, last, following = window(found)
    print(f"{following - last} cycles from the last digit of a batch to the first that reads the new model")


if __name__ == "__main__":
    main()
