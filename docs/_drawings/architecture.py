"""The parts of bitlane and what moves between them: `python docs/_drawings/architecture.py`."""

from __future__ import annotations

from drawing import BLUE, GREEN, GREY, ORANGE, Drawing, main

from bitlane.contract.formats import MASTER, WEIGHT
from bitlane.contract.layout import CHUNK, DIGIT_BITS, MAX_DIGITS, PORT_WIDTHS

NAME = "architecture.svg"


def draw() -> str:
    """Return the drawing for README and first page."""
    bits = f"{DIGIT_BITS} to {DIGIT_BITS * MAX_DIGITS} bits"
    drawing = Drawing(
        720,
        410,
        "How bitlane trains a model",
        f"The host stores each feature with {bits} in memory. The accelerator reads the rows through its memory port. "
        f"Dot lanes multiply {CHUNK} features at a time with the weights, the slope stage turns the result into a step "
        "of the weights, and update lanes add the same row, times the step. Model and losses go back to memory.",
    )
    host, memory = (16, 46, 166, 122), (16, 262, 166, 122)
    drawing.box(*host, ["Host", "your table", "estimators, driver", "in Python"], GREEN)
    drawing.box(*memory, ["Memory", "rows: digits, draws", "labels", "model, losses"], GREY)
    drawing.arrow((60, 168), (60, 262), color=GREEN)
    drawing.text(68, 205, f"{bits}", anchor="start", size=12)
    drawing.text(68, 221, "a feature", anchor="start", size=12)
    drawing.arrow((150, 262), (150, 168), color=GREY)
    drawing.text(158, 213, "model", anchor="start", size=12)

    drawing.frame(236, 14, 468, 382, "Accelerator: an FPGA, or its simulation")
    drawing.box(252, 46, 436, 40, ["Registers and control"], GREY)
    drawing.arrow((182, 66), (252, 66), both=True)
    drawing.box(252, 112, 92, 272, ["Port", f"{PORT_WIDTHS[0]} to", f"{PORT_WIDTHS[-1]} bits"], GREY)
    drawing.arrow((182, 323), (252, 323), both=True)

    drawing.box(396, 112, 150, 60, ["Weights", f"{MASTER.bits} bits, read with {WEIGHT.bits}"], ORANGE, size=12)
    drawing.box(396, 214, 122, 64, ["Dot lanes", f"{CHUNK} features", "at a time"], size=12)
    drawing.box(558, 214, 114, 64, ["Slope", "of the loss,", "times the step"], size=12)
    drawing.box(396, 320, 122, 64, ["Row buffer", "the same row", "once more"], GREY, size=12)
    drawing.box(558, 320, 114, 64, ["Update lanes", "row times", "scaled gradient"], ORANGE, size=12)

    drawing.arrow((344, 142), (396, 142), color=GREY, both=True)
    drawing.text(370, 134, "model", size=12)
    drawing.arrow((344, 246), (396, 246), color=BLUE)
    drawing.text(370, 238, "digits", size=12)
    drawing.arrow((344, 352), (396, 352), color=BLUE)
    drawing.arrow((457, 172), (457, 214), color=ORANGE)
    drawing.text(465, 198, "once a batch", anchor="start", size=12)
    drawing.arrow((518, 246), (558, 246), color=BLUE)
    drawing.text(538, 238, "a·x", size=12)
    drawing.arrow((615, 278), (615, 320), color=BLUE)
    drawing.arrow((518, 352), (558, 352), color=BLUE)
    drawing.arrow((672, 352), (688, 352), (688, 142), (546, 142), color=ORANGE)
    drawing.text(618, 134, "update", size=12)
    return drawing.svg()


if __name__ == "__main__":
    main(NAME, draw)
