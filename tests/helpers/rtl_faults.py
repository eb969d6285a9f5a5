"""One simulator with many faults: each is chosen by a number when a simulation starts.

Each fault replaces an expression of the RTL by ``fault(number, expression, wrong)``, a multiplexer of both. Its select
input is a signal that a small Verilog module reads from a file. So a build is compiled once for all faults.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.places import ROOT

from bitlane.contract.config import AcceleratorConfig
from bitlane.selftest import SystemBlock
from bitlane.selftest import blocks as names

HELPER = '''"""Faults that are chosen when a simulation starts."""

from amaranth.hdl import Mux, Signal

NUMBER = Signal(8)


def fault(number, correct, wrong):
    return Mux(NUMBER == number, wrong, correct)
'''
SOURCE = """
module fault_source(output reg [7:0] number);
  integer file, count;
  initial begin
    number = 0;
    file = $fopen("{path}", "r");
    if (file != 0) begin
      count = $fscanf(file, "%d", number);
      $fclose(file);
    end
  end
endmodule
"""
GENERATE = """
import sys
from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export.verilog import TOP, to_verilog
print(to_verilog(Accelerator({config!r}, build=0), TOP))
"""
FUTURE = "from __future__ import annotations\n"


@dataclass(frozen=True)
class RtlFault:
    """A fault of the RTL.

    Attributes
    ----------
    block : SystemBlock
        The block of the self test with the fault.
    file : str
        Its file, relative to `hw/bitlane_hw` and without `.py`.
    correct : str
        An expression of that file.
    wrong : str
        The expression with the fault.
    line : str, default="{}"
        Source line around the expression, which makes it unique in the file.
    first : bool, default=True
        Whether the first failed check is one of this block.
    """

    block: SystemBlock
    file: str
    correct: str
    wrong: str
    line: str = "{}"
    first: bool = True

    @property
    def name(self) -> str:
        return f"{self.block.name}: {self.correct} became {self.wrong}"

    def occurrences(self) -> int:
        """How often the source line is in the file."""
        return (ROOT / "hw" / "bitlane_hw" / f"{self.file}.py").read_text().count(self.line.format(self.correct))


FAULTS = (
    RtlFault(names.REGISTER_FILE, "control/registers", "bus.wdata[low : low + 8]", "bus.wdata[low : low + 7]"),
    RtlFault(names.REGISTER_FILE, "control/registers", "bus.araddr[2:]", "bus.araddr[2:10]"),
    RtlFault(names.CONFIGURATION, "control/checks", "(r.decay > DECAY_RANGE[1])", "(r.decay > DECAY_RANGE[1] + 1)"),
    RtlFault(names.CONFIGURATION, "control/checks", "row_words > config.max_row_words", "0", "        {},"),
    RtlFault(names.MODEL_TRANSFER, "memory/loader", "config.chunk_beats - 1", "config.chunk_beats - 2",
             "with m.If(beat.part == {}):"),
    RtlFault(names.MODEL_TRANSFER, "memory/storer", "count + 1", "count + 2"),
    RtlFault(names.MODEL_TRANSFER, "memory/writer", "request.address", "request.address ^ 4096"),
    RtlFault(names.MODEL_TRANSFER, "datapath/weights", "address", "address ^ 1", "write.addr.eq({})"),
    RtlFault(names.TRACE, "memory/storer", "self.stamp", "self.stamp[:4]", "Cat({}, *self.losses)"),
    RtlFault(names.READ_PATH, "memory/regions", "self.base_beats + groups", "self.base_beats", first=False),
    RtlFault(names.READ_PATH, "memory/burst_generator", "next_address + region.stride", "next_address"),
    RtlFault(names.READ_PATH, "memory/address_generator", "self.group.all()", "self.group[0]"),
    RtlFault(names.READ_PATH, "memory/reader", "burst.payload.address", "burst.payload.address ^ 512", first=False),
    RtlFault(names.DIGIT_DOT, "datapath/dot", "chunk_total << 2", "chunk_total << 1"),
    RtlFault(names.TABLE_DOT, "datapath/table_dot", "row_begins", "1", "add_three(Mux({}, 0, total)"),
    RtlFault(names.CODEBOOKS, "datapath/codebook", "begin | level", "begin | (level & 3)"),
    RtlFault(names.CODEBOOKS, "datapath/codebook", "draws[j].high", "draws[j].low", "Mux(first, {}, draws[j].low)"),
    RtlFault(names.SCALAR, "datapath/scalar", "self.base_digits << 1", "(self.base_digits << 1) + 1", first=False),
    RtlFault(names.DIGIT_PASS, "datapath/gradient", "scaled_gradients.total", "scaled_gradients.difference",
             "total, difference = {}, scaled_gradients.difference"),
    RtlFault(names.TABLE_PASS, "datapath/table_pass", "given.total - given.difference",
             "given.total + given.difference"),
    RtlFault(names.UPDATE, "datapath/update", "bound_units >= high", "bound_units > high"),
    RtlFault(names.UPDATE, "datapath/update", "total >> SHRINK_SHIFT", "total >> (SHRINK_SHIFT + 1)", "~({})"),
    RtlFault(names.UPDATE, "datapath/update", "MASTER.maximum", "MASTER.maximum - 1", "updated.eq({})"),
    RtlFault(names.MODEL_CORES, "memory/loader", "beat.output", "0", "self.load.bit_select({}, 1)", first=False),
    RtlFault(names.SCHEDULE, "control/schedule", "product[-1] | exponent.all()", "product[-1]"),
    RtlFault(names.SCHEDULE, "control/schedule", "scale.mantissa * self.decay", "scale.mantissa * 65536"),
    RtlFault(names.SEQUENCER, "control/sequencer", "bank ^ ~first_batch", "bank"),
    RtlFault(names.SEQUENCER, "control/sequencer", "settings.batch_tail", "config.rows_per_beat"),
    RtlFault(names.SEQUENCER, "control/publish_timer", "words", "words ^ 1", "bit_select({}, 1)", first=False),
    RtlFault(names.READ_PATH, "memory/port_credits", "Cat(words)", "Cat(*words[::-1])", first=False),
    RtlFault(names.MODEL_ROUNDING, "datapath/rounding", "seed + SEED_STEP", "seed", "Mux(loading, seed, {})"),
    # Every run ends with a comparison of the seed: the checks of the rounded weights, which come first, find it too.
    RtlFault(names.GRADIENT_ROUNDING, "datapath/rounding", "self.seed_now + SEED_STEP", "self.seed_now", first=False),
    RtlFault(names.ENCODER, "encoder/connections", "source", "source ^ 256", "encoder.source.eq({})"),
    RtlFault(names.ENCODER, "encoder/core", "self.beats.payload", "self.beats.payload ^ 1", "label.eq({})"),
    RtlFault(names.ENCODER, "encoder/draws", "feature_steps(lane) + count", "feature_steps(lane) + count + 1"),
    RtlFault(names.ENCODER, "encoder/draws", "word ^ _mask(number)", "word"),
    RtlFault(names.ENCODER, "encoder/encoder", "self.source", "self.source ^ 256", "reader.address.eq({})"),
    RtlFault(names.ENCODER, "encoder/group_rows", "self.epoch_tail", "self._rows", "Mux(ends, {}, "),
    RtlFault(names.ENCODER, "encoder/positions", "floor + self.offset.as_signed()", "floor - self.offset.as_signed()"),
    RtlFault(names.ENCODER, "encoder/region_buffer", "lines[turn] + 1", "lines[turn] + 2"),
    RtlFault(names.ENCODER, "encoder/scale_table", "self.beat_index >> len(which)", "0"),
    RtlFault(names.ENCODER, "encoder/sequencer", "word.word_select(lane, 16)", "word.word_select(3 - lane, 16)"),
    RtlFault(names.ENCODER, "encoder/source_reader", "line + 1", "line", "line.eq({})"),
    RtlFault(names.ENCODER, "encoder/words", "self.flags.slot == index", "self.flags.slot == (index ^ 1)"),
    RtlFault(names.COUNTERS, "engine", "sequencer.stall_model", "0", '("stall_model", {})'),
    RtlFault(names.COUNTERS, "engine", "reader.accepted", "reader.accepted & ~sequencer.model.valid", first=False),
    RtlFault(names.RUN_CONTROL, "control/control", "self.abort & ~draining", "0", "fail({}, ErrorCode.ABORTED)"),
    RtlFault(names.RUN_CONTROL, "control/control", "response == SLVERR", "1", "Mux({}, slave, decode)"),
    RtlFault(names.RUN_CONTROL, "accelerator", "control.done & registers.irq_enable", "control.done"),
    RtlFault(names.COMPLETE, "datapath/model_shard", "core.objective.low", "core.objective.high", first=False),
    RtlFault(names.COMPLETE, "datapath/dot_sum", "a + b", "a - b", first=False),
    RtlFault(names.COMPLETE, "datapath/model_core", "self.shrink", "0", "Staged({}, scaled)", first=False),
)  # fmt: skip


def with_faults(folder: Path) -> Path:
    """Copy the RTL to a folder, with all faults in it, and return the folder."""
    package = folder / "bitlane_hw"
    shutil.copytree(ROOT / "hw" / "bitlane_hw", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "common" / "fault.py").write_text(HELPER)
    for number, each in enumerate(FAULTS, 1):
        path = package / f"{each.file}.py"
        text = path.read_text()
        before = each.line.format(each.correct)
        after = each.line.format(f"fault({number}, {each.correct}, {each.wrong})")
        assert text.count(before) == 1, each
        text = text.replace(before, after)
        imported = "from bitlane_hw.common.fault import fault\n"
        path.write_text(text if imported in text else text.replace(FUTURE, FUTURE + imported, 1))
    path = package / "accelerator.py"
    source = "m.submodules.fault_source = Instance('fault_source', o_number=NUMBER)"
    text = path.read_text().replace(
        "        config = self._config\n", f"        config = self._config\n        {source}\n", 1
    )
    path.write_text(
        text.replace(
            FUTURE, f"{FUTURE}from amaranth.hdl import Instance\nfrom bitlane_hw.common.fault import NUMBER\n", 1
        )
    )
    return folder


def faulty_verilog(config: AcceleratorConfig, folder: Path, choice: Path) -> Path:
    """Write the Verilog of a build with all faults, which reads the number of its fault from the file `choice`."""
    packages = os.pathsep.join(str(each) for each in (with_faults(folder), ROOT / "host"))
    environment = {**os.environ, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", GENERATE.format(config=config)]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    path = folder / "faulty.v"
    path.write_text(made.stdout + SOURCE.format(path=choice))
    return path
