"""The self test finds a fault in each block of the RTL, and names the block."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.rtl_faults import FAULTS, RtlFault, faulty_verilog

from bitlane.contract.config import AcceleratorConfig
from bitlane.selftest import BLOCKS, SelfTestReport, control, examine, speed
from bitlane_sim.rtl import build
from bitlane_sim.rtl.build import build_verilog
from bitlane_sim.rtl.device import RtlDevice
from bitlane_verify.equivalence.rig import CAPACITY
from bitlane_verify.mutation.builds import modules_called

SIZES = {"max_features": 128, "row_buffer_beats": 100}  # too short for the longest rows, which must be refused
DIGIT = AcceleratorConfig(128, 2, **SIZES)
TABLE = AcceleratorConfig(128, 1, level_slots=64, random_rounding=True, **SIZES)
ENCODER = AcceleratorConfig(128, 1, encoder=2, **SIZES)
SHARDED = AcceleratorConfig(128, 1, shards=2, ports=2, **SIZES)
CONFIGS, NAMES = [DIGIT, TABLE, ENCODER, SHARDED], ["digit", "table", "encoder", "shards"]
ONLY_SHARDED = {"datapath/dot_sum", "memory/port_credits", "control/publish_timer"}
Examine = Callable[[AcceleratorConfig, int, int], SelfTestReport]


def config_of(fault: RtlFault) -> AcceleratorConfig:
    """The build for a fault: the first that has the block and the file."""
    return SHARDED if fault.file in ONLY_SHARDED else next(c for c in CONFIGS if fault.block.builds.include(c))


@pytest.fixture(scope="module")
def simulate(tmp_path_factory: pytest.TempPathFactory) -> Examine:
    """simulate(config, number, seed): the report of a self test of the RTL with fault `number`; 0 for none."""
    libraries: dict[AcceleratorConfig, tuple[Path, Path]] = {}

    def run(config: AcceleratorConfig, number: int, seed: int) -> SelfTestReport:
        if config not in libraries:
            folder = tmp_path_factory.mktemp("faults")
            choice = folder / "choice"
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("BITLANE_CACHE", str(folder))
                patch.setattr(build, "COMPILER_FLAGS", tuple("-O0" if f == "-O2" else f for f in build.COMPILER_FLAGS))
                verilog = faulty_verilog(config, folder / "hw", choice)
                library = build_verilog(verilog, axi4_ports=config.ports, memories=config.ports)
                libraries[config] = library, choice
        library, choice = libraries[config]
        choice.write_text(f"{number}\n")
        with RtlDevice(config, CAPACITY, library=library) as device:
            return examine(device, seed, timeout=1.0)

    return run


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 64)
    monkeypatch.setattr(control, "GROUPS", 60)
    monkeypatch.setattr(control, "EPOCHS", 100)


def test_every_block_of_the_rtl_has_a_fault() -> None:
    in_rtl = {block for block in BLOCKS if block.files}
    assert {fault.block for fault in FAULTS} >= in_rtl
    with_files = {fault.file for fault in FAULTS}
    common = {f"common/{name}" for name in ("expectations", "fixed_point", "payloads", "signatures", "staged")}
    without = {
        "memory/axi",
        "datapath/terms",
        "encoder/beat_words",
        "encoder/payloads",
        *common,
    }  # no logic of their own
    assert {file for block in in_rtl for file in block.files} - with_files == without


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_expression_of_a_fault_is_unique(fault: RtlFault) -> None:
    assert fault.occurrences() == 1


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_every_file_of_a_build_is_of_one_of_its_blocks(config: AcceleratorConfig) -> None:
    from amaranth.hdl import Fragment

    from bitlane_hw.accelerator import Accelerator

    def elaborate() -> str:
        Fragment.get(Accelerator(config, build=0), None)
        return ""

    _, files = modules_called(elaborate)
    named = {file for block in BLOCKS if block.builds.include(config) for file in block.files}
    assert {file for file in files if not file.startswith("export/")} <= named
    imported = {"datapath/terms"}  # read when it is imported
    assert named - files <= (imported if config.shards > 1 else imported | ONLY_SHARDED)


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_without_a_fault_the_rtl_passes(config: AcceleratorConfig, simulate: Examine, seed: int) -> None:
    report = simulate(config, 0, seed)
    assert report.passed, report.text()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(FAULTS) + 1), ids=lambda number: FAULTS[number - 1].name)
def test_a_fault_of_the_rtl_is_found_in_its_block(number: int, simulate: Examine, seed: int) -> None:
    fault = FAULTS[number - 1]
    report = simulate(config_of(fault), number, seed)
    assert fault.block.name in report.failed_blocks, report.text()
    if fault.first:
        assert report.failed_blocks[0] == fault.block.name, report.text()
