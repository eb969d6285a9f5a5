"""Many cells in one Verilog module, simulated together on vectors of bits: one build for all of them."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bitlane_sim.rtl import toolchain
from bitlane_sim.rtl.build import RUNTIME, cached, content_hash
from bitlane_verify.implementation.netlist.mapping import CELLS

Bits = npt.NDArray[np.uint8]  # [cycles, bits], 0 or 1
MAIN = Path(__file__).with_name("vectors.cpp")
VERILATOR = (*("--cc", "--top-module", "bench", "--prefix", "Vtop", "--Mdir", "."), "--assert", "-O3")
UNKNOWN = ("--x-assign", "fast", "--x-initial", "unique", "-Wno-fatal", "-Wno-lint", "-Wno-style")
COMPILER = (
    *(
        "-std=c++17",
        "-O0",
        "-DVL_USER_STOP",
        "-DVM_COVERAGE=0",
        "-DVM_SC=0",
        "-DVM_TRACE=0",
        "-DVL_IGNORE_UNKNOWN_ARCH",
        "-pthread",
    ),
)
SMALLEST = 65  # bits of a port that Verilator keeps as an array of words


class Refused(Exception):
    """What models said with $fatal."""


@dataclass(frozen=True)
class Cell:
    """An instance: where its ports' bits lie in the bench's input and output."""

    inputs: dict[str, slice]
    outputs: dict[str, slice]

    def drive(self, vectors: Bits, port: str, values: npt.ArrayLike) -> None:
        """Give an input these values, one a cycle or one for all, below 2**64."""
        where = self.inputs[port]
        numbers = np.broadcast_to(np.asarray(values, np.uint64), vectors.shape[:1])
        vectors[:, where] = numbers[:, None] >> np.arange(where.stop - where.start, dtype=np.uint64) & np.uint64(1)

    def given(self, vectors: Bits, port: str) -> list[int]:
        """An input's values."""
        return _numbers(vectors[:, self.inputs[port]])

    def result(self, out: Bits, port: str) -> list[int]:
        """An output's values."""
        return _numbers(out[:, self.outputs[port]])


class CellBench:
    """A Verilog module `bench` with a clock, an input and an output that its cells share out among them.

    `models` is the Verilog of the cells; those of the netlist package when None.
    """

    def __init__(self, models: str | None = None) -> None:
        self._models = "\n".join(path.read_text() for path in CELLS) if models is None else models
        self._lines: list[str] = []
        self._inputs = self._outputs = 0

    def add(
        self, module: str, parameters: dict[str, str], inputs: dict[str, int], outputs: dict[str, int], *clocks: str
    ) -> Cell:
        """An instance; inputs and outputs are named with their widths."""
        wires = [f".{clock}(clk)" for clock in clocks]
        cell = Cell({}, {})
        for port, width in inputs.items():
            wires.append(f".{port}(in[{self._inputs} +: {width}])")
            cell.inputs[port] = slice(self._inputs, self._inputs + width)
            self._inputs += width
        for port, width in outputs.items():
            wires.append(f".{port}(out[{self._outputs} +: {width}])")
            cell.outputs[port] = slice(self._outputs, self._outputs + width)
            self._outputs += width
        settings = ", ".join(f".{name}({value})" for name, value in parameters.items())
        self._lines.append(f"  {module} #({settings}) cell_{len(self._lines)} ({', '.join(wires)});")
        return cell

    def vectors(self, rng: np.random.Generator, cycles: int) -> Bits:
        """Random inputs."""
        return rng.integers(0, 2, (cycles, self._inputs), np.uint8)

    def run(self, vectors: Bits, seed: int = 1) -> Bits:
        """The outputs, [cycles, bits]: each before the edge that ends its cycle."""
        return execute(self._program(), vectors, self._outputs, seed)

    def _program(self) -> Path:
        widths = max(SMALLEST, self._inputs), max(SMALLEST, self._outputs)
        header = f"module bench (input clk, input [{widths[0] - 1}:0] in, output [{widths[1] - 1}:0] out);"
        return build("\n".join([header, *self._lines, "endmodule", self._models]))


def build(text: str) -> Path:
    """The program of a module `bench`, once for each content."""
    tools = toolchain.find()
    content = [
        text.encode(),
        MAIN.read_bytes(),
        tools.version().encode(),
        repr((VERILATOR, UNKNOWN, COMPILER)).encode(),
    ]

    def make(directory: Path) -> None:
        with tempfile.TemporaryDirectory(dir=directory) as name:
            work = Path(name)
            (work / "bench.v").write_text(text)
            toolchain.run([str(tools.verilator), *VERILATOR, *UNKNOWN, "bench.v"], tools.environment(), work)
            parts = [MAIN, *sorted(work.glob("Vtop*.cpp"))]  # in one file, which reads Verilator's headers once
            (work / "all.cpp").write_text("".join(f'#include "{part}"\n' for part in parts))
            objects = map(str, runtime(tools))
            toolchain.run([*_compiler(tools), "all.cpp", *objects, "-o", str(directory / "bench")], directory=work)

    return cached("cells", content_hash(content), make) / "bench"


def runtime(tools: toolchain.Toolchain) -> list[Path]:
    """Verilator's own part of every program, compiled once."""

    def make(directory: Path) -> None:
        sources = [str(tools.root / "include" / name) for name in RUNTIME]
        toolchain.run([*_compiler(tools), "-c", *sources], directory=directory)

    entry = cached("cells", content_hash([tools.version().encode(), repr(COMPILER).encode()]), make)
    return sorted(entry.glob("*.o"))


def _compiler(tools: toolchain.Toolchain) -> list[str]:
    include = tools.root / "include"
    return [tools.compiler, *COMPILER, "-I.", f"-I{include}", f"-I{include / 'vltstd'}"]


def execute(program: Path, vectors: Bits, outputs: int, seed: int) -> Bits:
    """The first `outputs` bits that a bench's program gives for these inputs."""
    given = _ports(vectors)
    done = subprocess.run([program, str(seed)], input=given.tobytes(), capture_output=True)
    if done.returncode:
        raise Refused(done.stderr.decode())
    words = np.frombuffer(done.stdout, np.uint8).reshape(len(vectors), -1)
    return np.unpackbits(words, axis=1, bitorder="little")[:, :outputs]


def _ports(vectors: Bits) -> Bits:
    width = max(SMALLEST, vectors.shape[1])
    padded = np.zeros((len(vectors), -(-width // 32) * 32), np.uint8)
    padded[:, : vectors.shape[1]] = vectors
    return np.packbits(padded, axis=1, bitorder="little")


def _numbers(bits: Bits) -> list[int]:
    octets = np.packbits(bits, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in octets]
