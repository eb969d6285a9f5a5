"""Benches of single blocks: from a component to a run of its cocotb tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bitlane_sim.cocotb_bench.runner import run_bench


def run_block(component: Any, name: str, directory: Path, seed: int) -> None:
    """The tests of `bitlane_sim.cocotb_bench.bench_<name>` on a component, its ports named `a_b_c` by their paths.

    Ports that never change (the ready of a stream that is always ready) are left out: Amaranth refuses them.
    """
    from amaranth.back import verilog
    from amaranth.hdl import Signal, Value

    ports = {
        "_".join(str(part) for part in path): (Value.cast(value), None)
        for path, _member, value in component.signature.flatten(component)
        if isinstance(Value.cast(value), Signal)
    }
    text = verilog.convert(component, name=f"{name}_block", ports=ports, emit_src=False)
    path = directory / f"{name}_block.v"
    path.write_text(text)
    run_bench(path, f"{name}_block", f"bitlane_sim.cocotb_bench.bench_{name}", directory, seed)
