"""The blocks of the accelerator with their widths and latencies: `python docs/_drawings/datapath.py`."""

from __future__ import annotations

from drawing import BLUE, GREY, ORANGE, Drawing, main

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER, RESIDUAL, SCALED_GRADIENT, WEIGHT
from bitlane.contract.layout import BURST_BEATS, CHUNK, DIGIT_BITS
from bitlane_hw.common.payloads import dot_bits
from bitlane_hw.datapath.dot import DotLanes
from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.scalar import Predict, Slope, StepProduct
from bitlane_hw.datapath.terms import TERM
from bitlane_hw.datapath.update import lanes_latency

NAME = "datapath.svg"


def draw(config: AcceleratorConfig | None = None) -> str:
    """Return the drawing of a build with digit lanes; None for the default build."""
    config = config or AcceleratorConfig()
    drawing = Drawing(
        720,
        560,
        "The datapath of the accelerator",
        "Beats come from the read port through two FIFOs and the sequencer. They go to the dot lanes and, once more "
        "through the row buffer, to the gradient pass. Prediction, slope and step lie between. The update lanes change "
        "the master weights, whose published copy the dot lanes read.",
    )
    _read_side(drawing, config)
    _model_core(drawing, config)
    _write_side(drawing, config)
    return drawing.svg()


def _read_side(drawing: Drawing, config: AcceleratorConfig) -> None:
    """Draw memory port, reader, sequencer and row buffer."""
    beat = f"{config.width} bits"
    drawing.box(20, 16, 440, 34, ["Memory port, read channels (AXI4)"], GREY)
    drawing.box(20, 104, 112, 58, ["Addresses", "in the order", "of use"], GREY, size=12)
    drawing.box(176, 104, 112, 58, ["Bursts", f"of 1 to {BURST_BEATS}", "beats"], GREY, size=12)
    drawing.box(346, 92, 114, 36, ["Base FIFO", f"{config.fifo_beats} beats"], GREY, size=11)
    drawing.box(346, 138, 114, 36, ["Draw FIFO", f"{config.fifo_beats} beats"], GREY, size=11)
    drawing.box(492, 104, 96, 58, ["Sequencer", "the one block", "that waits"], BLUE, size=11)
    drawing.box(620, 104, 84, 58, ["Row buffer", f"{config.row_buffer_beats:,}", "beats"], GREY, size=11)
    drawing.arrow((132, 133), (176, 133))
    drawing.arrow((232, 104), (232, 50))
    drawing.text(226, 82, f"address, {config.address_bits}", anchor="end", size=12)
    drawing.arrow((403, 50), (403, 92), color=BLUE)
    drawing.text(409, 74, beat, anchor="start", size=12)
    drawing.arrow((460, 116), (492, 116), color=BLUE)
    drawing.arrow((460, 152), (492, 152), color=BLUE)
    drawing.arrow((588, 133), (620, 133), color=BLUE)
    drawing.arrow((540, 162), (540, 194), (96, 194), (96, 260), color=BLUE)
    rows = "1 row" if config.rows_per_beat == 1 else f"{config.rows_per_beat} rows"
    drawing.text(106, 188, f"{beat}: {rows} of {CHUNK} digits of {DIGIT_BITS} bits", anchor="start", size=12)
    drawing.arrow((668, 162), (668, 376), color=BLUE)


def _model_core(drawing: Drawing, config: AcceleratorConfig) -> None:
    """Draw the forward path, the update path and the weights."""
    drawing.frame(16, 210, 688, 246, f"Model core: one for each output, {config.outputs} here", inset=104)
    y, height = 260, 58
    forward = [
        (36, 120, "Dot lanes", f"2 trees of {CHUNK}", DotLanes.latency),
        (218, 96, "Predict", "round, clip", Predict.latency),
        (376, 96, "Slope", "of the loss", Slope.latency),
        (534, 96, "Step", "multiply", StepProduct.latency),
    ]
    for x, width, name, what, latency in forward:
        drawing.box(x, y, width, height, [name, what, _cycles(latency)], size=12)
    widths = [dot_bits(config.max_features), RESIDUAL.bits, RESIDUAL.bits]
    for (left, width, *_), (right, *_), bits in zip(forward, forward[1:], widths, strict=False):
        drawing.arrow((left + width, y + 29), (right, y + 29), color=BLUE)
        drawing.text((left + width + right) / 2, y + 21, f"2 x {bits}", size=12)
    drawing.arrow((582, y + height), (582, 376), color=ORANGE)
    drawing.text(576, 352, f"2 x {SCALED_GRADIENT.bits}", anchor="end", size=12)
    drawing.text(662, 352, f"{config.width}", anchor="end", size=12)

    y = 376
    masters, published = CHUNK * MASTER.bits, CHUNK * WEIGHT.bits
    drawing.box(36, y, 120, height, ["Published", f"{config.max_chunks} x {published:,}", "bits"], ORANGE, size=12)
    drawing.box(218, y, 110, height, ["Masters", f"{config.max_chunks} x {masters:,}", "bits"], ORANGE, size=12)
    drawing.box(376, y, 110, height, ["Update lanes", f"{CHUNK} sums", _cycles(lanes_latency(config))], ORANGE, size=12)
    drawing.box(548, y, 140, height, ["Gradient pass", "selects terms", _cycles(GradientPass.latency)], ORANGE, size=12)
    drawing.arrow((548, y + 29), (486, y + 29), color=ORANGE)
    drawing.text(517, y + 21, f"2 x {TERM.width}", size=12)
    drawing.arrow((376, y + 29), (328, y + 29), color=ORANGE, both=True)
    drawing.text(352, y + 21, f"{masters:,}", size=12)
    drawing.arrow((218, y + 29), (156, y + 29), color=ORANGE)
    drawing.text(187, y + 21, f"{published:,}", size=12)
    drawing.arrow((96, y), (96, 318), color=ORANGE)
    drawing.text(104, 352, f"{CHUNK} x {WEIGHT.bits}", anchor="start", size=12)


def _cycles(latency: int) -> str:
    return "1 cycle" if latency == 1 else f"{latency} cycles"


def _write_side(drawing: Drawing, config: AcceleratorConfig) -> None:
    """Draw the way of models and losses to the memory, and the registers."""
    drawing.box(20, 496, 150, 44, ["Registers, control", "AXI4-Lite, 32 bits"], GREY, size=12)
    drawing.box(218, 496, 110, 44, ["Storer", "model, losses"], GREY, size=12)
    drawing.box(376, 496, 110, 44, ["Writer", f"{config.width} bits"], GREY, size=12)
    drawing.box(534, 496, 170, 44, ["Memory port,", "write channels (AXI4)"], GREY, size=12)
    drawing.arrow((95, 496), (95, 456))
    drawing.text(103, 480, "settings", anchor="start", size=12)
    drawing.arrow((273, 434), (273, 496))
    drawing.arrow((328, 518), (376, 518))
    drawing.arrow((486, 518), (534, 518))


if __name__ == "__main__":
    main(NAME, draw)
