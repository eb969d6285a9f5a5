"""Train digits on the SoC, and compare bits and cycles: `python -m bitlane_verify.litex`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns
from bitlane_hw.export.build_options import fail
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_sim.rtl.dram import DramTiming

from .digits import BUILD, DigitsModel, train_digits
from .run import train_on_soc
from .soc import CLOCK_HZ

# MT41K128M16 at 800 MT/s, with the times of LiteDRAM: CL 6, CWL 5, tWTR 4, and a tRFC of 128 clocks of 2.5 ns.
DDR3 = DramTiming("MT41K128M16", 1.6e9, 8, 2048, 15.0, 13.75, 13.75, 48.75, 22.5, 7812.5, 320.0)
HEADINGS = ("memory", "cycles", "share", "bytes a cycle")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; return 1 if the SoC has other bits than the reference, or its DRAM reports an illegal command."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_verify.litex",
        description="Train the digits in a simulated LiteX SoC with LiteDRAM, and compare with the reference.",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of all that is random (default: a new one)")
    given = parser.parse_args(argv).seed
    seed = int.from_bytes(os.urandom(4), "little") if given is None else given
    expected = train_digits(EmulatorDevice(BUILD), seed)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = train_on_soc(Path(folder), seed)
        with RtlDevice(BUILD) as device:
            device.disturb(Disturbance(dram=DDR3.ticks(CLOCK_HZ, BUILD.port_bytes)))
            modelled = train_digits(device, seed)
    except BitlaneError as error:
        fail(parser, error)
    except AssertionError as error:
        print(f"{error}; repeat the run with --seed {seed}", file=sys.stderr)
        return 1
    memories = {"each beat in its cycle": expected, "bitlane's DRAM": modelled, "LiteDRAM": run.model}
    print(align_columns([HEADINGS, *(_row(name, model, expected) for name, model in memories.items())]))
    print(f"\naccuracy {float(run.model.accuracy):.1%}, seed {seed}")
    problems = [*run.violations, *(f"not equal: {name}" for name in run.model.differences(expected))]
    print(
        "\n".join(problems)
        if problems
        else "weights and losses of all epochs equal those of the reference, bit for bit"
    )
    return bool(problems)


def _row(name: str, model: DigitsModel, best: DigitsModel) -> tuple[str, ...]:
    share = float(best.cycles / model.cycles)
    return name, f"{int(model.cycles):,}", f"{share:.3f}", f"{model.bytes_per_cycle:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
