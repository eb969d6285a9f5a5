"""The blocks of the accelerator that a self test checks: one table for reports, checks and tests."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bitlane.contract.config import AcceleratorConfig


class Builds(Enum):
    """The builds that have a block."""

    ALL = "all builds"
    DIGIT_LANES = "builds with digit lanes"
    TABLE_LANES = "builds with table lanes"
    RANDOM_ROUNDING = "builds with random rounding"
    SEVERAL_OUTPUTS = "builds with several outputs"
    ENCODER = "builds with an encoder"

    def include(self, config: AcceleratorConfig) -> bool:
        """Return whether a build is one of them."""
        return {
            Builds.ALL: True,
            Builds.DIGIT_LANES: not config.table_lanes,
            Builds.TABLE_LANES: config.table_lanes,
            Builds.RANDOM_ROUNDING: config.random_rounding,
            Builds.SEVERAL_OUTPUTS: config.outputs > 1,
            Builds.ENCODER: config.encoder > 0,
        }[self]


@dataclass(frozen=True)
class SystemBlock:
    """A block of the accelerator, or of the system around it.

    Attributes
    ----------
    name : str
        Start of the names of its checks.
    compared : str
        What its checks compare, in one line.
    files : tuple of str
        RTL files that describe it, relative to `hw/bitlane_hw` and without `.py`; empty if it is not RTL.
    builds : Builds, default=Builds.ALL
        The builds that have it.
    """

    name: str
    compared: str
    files: tuple[str, ...] = ()
    builds: Builds = Builds.ALL


REGISTER_FILE = SystemBlock("register file", "each register bit with the value written", ("control/registers",))
CONFIGURATION = SystemBlock("configuration checks", "error code of illegal register values", ("control/checks",))
HOST_MEMORY = SystemBlock("host memory", "buffers after flush and invalidate with the words written")
MODEL_TRANSFER = SystemBlock(
    "model transfer",
    "weights loaded and stored without an update",
    ("memory/loader", "memory/storer", "memory/writer", "datapath/weights"),
)
TRACE = SystemBlock("epoch trace", "losses of zero weights and labels with 0, time stamps with the cycle counter")
READ_PATH = SystemBlock(
    "read path",
    "losses of zero weights, which depend on the labels only; sets of samples in turn",
    (
        "memory/reader",
        "memory/port_credits",
        "memory/address_generator",
        "memory/burst_generator",
        "memory/regions",
        "memory/axi",
    ),
)
DIGIT_DOT = SystemBlock("digit dot lanes", "losses with constant weights", ("datapath/dot",), Builds.DIGIT_LANES)
TABLE_DOT = SystemBlock(
    "table dot lanes", "losses with constant weights, all levels equal", ("datapath/table_dot",), Builds.TABLE_LANES
)
CODEBOOKS = SystemBlock(
    "codebook memory", "losses with constant weights, random levels", ("datapath/codebook",), Builds.TABLE_LANES
)
SCALAR = SystemBlock("scalar stage", "losses and clipped residuals with constant weights", ("datapath/scalar",))
MODEL_CORES = SystemBlock(
    "model cores", "losses and weights of each output, the other outputs 0", (), Builds.SEVERAL_OUTPUTS
)
DIGIT_PASS = SystemBlock(
    "digit gradient pass", "weights after training", ("datapath/gradient", "datapath/terms"), Builds.DIGIT_LANES
)
TABLE_PASS = SystemBlock(
    "table gradient pass", "weights after training", ("datapath/table_pass", "datapath/terms"), Builds.TABLE_LANES
)
UPDATE = SystemBlock("update lanes", "weights, clipped weights and proximal operators", ("datapath/update",))
SCHEDULE = SystemBlock("schedule", "step, step_negative, penalty_step and phase after training", ("control/schedule",))
SEQUENCER = SystemBlock(
    "sequencer",
    "weights after training with batches and rows of every size",
    ("control/sequencer", "control/publish_timer"),
)
MODEL_ROUNDING = SystemBlock(
    "rounding of weights",
    "losses with constant weights, rounded at random",
    ("datapath/rounding",),
    Builds.RANDOM_ROUNDING,
)
GRADIENT_ROUNDING = SystemBlock(
    "rounding of gradients",
    "weights and seed after training with scaled gradients rounded at random",
    ("datapath/rounding",),
    Builds.RANDOM_ROUNDING,
)
ENCODER = SystemBlock(
    "encoder",
    "base words and draw words of raw rows with those of the host's encoder; cycles with the prediction",
    tuple(
        f"encoder/{name}"
        for name in (
            *("beat_words", "connections", "core", "draws", "encoder", "group_rows", "payloads", "positions"),
            *("region_buffer", "scale_table", "sequencer", "source_reader", "words"),
        )
    ),
    Builds.ENCODER,
)
COUNTERS = SystemBlock("counters", "beats, cycles, stalls and saturations with the prediction", ("engine",))
RUN_CONTROL = SystemBlock(
    "run control", "error codes, interrupt, and the run after an abort or an error", ("control/control", "accelerator")
)
COMPLETE = SystemBlock(
    "complete datapath",
    "losses, weights and registers of random runs",
    (
        "datapath/model_core",
        "datapath/model_shard",
        "datapath/dot_sum",
        "common/expectations",
        "common/fixed_point",
        "common/payloads",
        "common/signatures",
        "common/staged",
    ),
)
THROUGHPUT = SystemBlock("throughput", "cycles of long runs with the prediction; measures clock and bandwidth")

BLOCKS = (
    *(REGISTER_FILE, CONFIGURATION, HOST_MEMORY, MODEL_TRANSFER, TRACE, READ_PATH),
    *(DIGIT_DOT, TABLE_DOT, CODEBOOKS, SCALAR, DIGIT_PASS, TABLE_PASS, UPDATE, MODEL_CORES, SCHEDULE, SEQUENCER),
    *(MODEL_ROUNDING, GRADIENT_ROUNDING, ENCODER, COUNTERS, RUN_CONTROL, COMPLETE, THROUGHPUT),
)


def blocks_of(config: AcceleratorConfig) -> tuple[SystemBlock, ...]:
    """Return the blocks of a build, in the order of the report."""
    return tuple(block for block in BLOCKS if block.builds.include(config))
