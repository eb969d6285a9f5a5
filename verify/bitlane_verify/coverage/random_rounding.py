"""The coverpoints of random rounding."""

from __future__ import annotations

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Prox
from bitlane.contract.prng import INDEX_STEP, SEED_BITS, SEED_STEP

from .covergroup import Covergroup
from .reference_events import CUTS, cut_class

VALUES = ("model", "s", "d")
WAYS = ("up", "down")
ROUNDED = ("nothing", "model", "scaled gradient", "both")
WRAPS = ("none", "one", "several")
CARRIES = ("lowest bit", "more bits", "from -1 to 0", "out of range")
# Of each number of rows a beat: builds of other widths have them too.
ROW_POINTS = ("rounded", "rounded, last batch", "row of a beat, rounding")


def declare(group: Covergroup, config: AcceleratorConfig) -> None:
    """Add the coverpoints, empty."""
    group.declare("rounded", ROUNDED)
    group.cross("cut of the model, of the scaled gradient", CUTS, CUTS)
    group.cross("rounded, prox, staleness", ROUNDED, (prox.name for prox in Prox), ("fresh", "stale"))
    group.cross("rounded, batches, epochs", ROUNDED, ("one", "several"), ("one", "several"))
    group.cross("rounded, last batch", ROUNDED, ("full", "partial"))
    group.declare("seed wraps", WRAPS)
    group.cross("count of a batch", ("model", "scaled gradient"), ("no wrap", "wraps"))
    group.declare("model rounded", ("at the start", "after a batch"))
    group.cross("rounding, sign", VALUES, ("negative", "positive"), WAYS)
    group.cross("rounding, cut", VALUES, CUTS[1:], WAYS)
    group.declare("rounding changes nothing", VALUES)
    group.cross("rounding up, carry", VALUES, CARRIES)
    group.cross("lane, model rounding", range(CHUNK), WAYS)
    group.cross("row of a beat, rounding", range(config.rows_per_beat), VALUES[1:], WAYS)
    group.declare("clipped after rounding", (f"{value} x high" for value in VALUES))


def sample_registers(group: Covergroup, registers: dict[str, int], last_batch: str) -> None:
    """Sample the registers after a run without an error."""
    r = registers
    cuts = {"model": r["model_cut"], "scaled gradient": r["scaled_gradient_cut"]}
    counts = {"model": -(-r["features"] // CHUNK), "scaled gradient": min(r["groups"], r["batch_groups"])}
    rounded = ROUNDED[(cuts["model"] > 0) + 2 * (cuts["scaled gradient"] > 0)]
    batches = -(-r["groups"] // r["batch_groups"])
    group.hit("rounded", rounded)
    group.hit("cut of the model, of the scaled gradient", *map(cut_class, cuts.values()))
    group.hit("rounded, prox, staleness", rounded, Prox(r["prox"]).name, ("fresh", "stale")[r["staleness"]])
    group.hit("rounded, batches, epochs", rounded, *(("one", "several")[count > 1] for count in (batches, r["epochs"])))
    group.hit("rounded, last batch", rounded, last_batch)
    if rounded != "nothing":
        group.hit("seed wraps", WRAPS[min(r["seed"] + batches * r["epochs"] * SEED_STEP >> SEED_BITS, 2)])
    for name, cut in cuts.items():
        if cut:
            wraps = r["seed"] + (counts[name] - 1) * INDEX_STEP >> SEED_BITS > 0
            group.hit("count of a batch", name, ("no wrap", "wraps")[wraps])
