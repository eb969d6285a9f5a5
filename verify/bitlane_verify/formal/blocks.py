"""A block of any kind, with small arguments."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.payloads import request_layout
from bitlane_hw.datapath.codebook import CodebookLookup, CodebookMemory
from bitlane_hw.datapath.rounding import ModelRounding, ScaledGradientRounding
from bitlane_hw.datapath.table_dot import TableDot
from bitlane_hw.datapath.table_pass import TablePass
from bitlane_hw.encoder.beat_words import BeatWord
from bitlane_hw.encoder.encoder import Encoder
from bitlane_hw.encoder.payloads import encoder_layout
from bitlane_hw.zynq.hp_port import ZYNQ_7000
from bitlane_hw.zynq.two_ports import WIDTH, TwoPortAccelerator

from .encoder import ENCODER
from .proof import CONFIG, TABLE

# Of the blocks' constructors, by name.
ARGUMENTS = {
    "build": 0,
    "output": 0,
    "rows_per_beat": CONFIG.rows_per_beat,
    "shape": 8,
    "hp": (0,),
    "port": ZYNQ_7000,
    "table_lanes": True,
    "random_rounding": True,
    "encoder": 8,
    "shards": 1,
    "ports": 2,
    "shard": 0,
    "base_bits": 4,
    "base_digits": 2,
    "sets": 2,
    "outputs": 2,
    "max_features": CONFIG.max_features,
    "label_cycles": 5,
    "offset_delay": 4,
    "address_bits": CONFIG.address_bits,
    "fifo_beats": CONFIG.fifo_beats,
    "regions": 3,
    "request_layout": request_layout(CONFIG),
    "port_number": 0,
    "width": 64,
    "layout": encoder_layout(CONFIG.max_features, 4, 2),
    "words": 2,
    "label_groups": 8,
    "places": (BeatWord(0, 0), BeatWord(0, 1)),
    "row": 1,
    "rows": 2,
}
# Of blocks that only some builds have.
CONFIGS = {
    **dict.fromkeys((TablePass, TableDot, CodebookLookup, CodebookMemory), TABLE),
    **dict.fromkeys((ModelRounding, ScaledGradientRounding), replace(CONFIG, random_rounding=True)),
    Encoder: ENCODER,
    TwoPortAccelerator: replace(CONFIG, width=WIDTH),
}


def make_block(kind: Any, config: AcceleratorConfig = CONFIG) -> Any:
    """Return a block of this kind or of a class derived from it.

    Parameters
    ----------
    kind : type
        A component of `bitlane_hw`.
    config : AcceleratorConfig, default=CONFIG
        Options of the build, if the block has them and is in such a build.
    """
    config = next((special for each, special in CONFIGS.items() if issubclass(kind, each)), config)
    names = [*inspect.signature(kind.__init__).parameters][1:]  # of a class, Python 3.10 shows those of `__new__`
    return kind(*({**ARGUMENTS, "config": config}[each] for each in names))
