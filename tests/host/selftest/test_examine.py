"""The self test: good devices of every build pass, and a fault in each block is found and named."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.faulty_devices import FAULTS, EmulatedFault

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.modes import Loss, Prox
from bitlane.devices import emulator as emulator_module
from bitlane.devices import software
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane.reference.machine import Reference
from bitlane.selftest import BLOCKS, SelfTestReport, blocks, blocks_of, control, examine, registers, speed
from bitlane.selftest.bench import CheckContext, register_words
from bitlane.selftest.examine import all_checks
from bitlane.selftest.registers import WINDOW_BYTES

SMALL = {"max_features": 128, "row_buffer_beats": 164, "capacity_bytes": 8 << 20}
BUILDS = [
    {"level_slots": slots, "random_rounding": rounding, "width": width, "outputs": outputs}
    for slots, rounding, width, outputs in product((0, 64), (False, True), (64, 128, 256, 512), (1, 4))
]

# These builds have each width twice, both numbers of outputs, and all kinds of lanes and rounding. The rest is slow.
FAST = (0, 3, 9, 14, 17, 20, 26, 31)


def build_name(build: dict[str, int]) -> str:
    lanes, rounding = "table" if build["level_slots"] else "digit", "random" if build["random_rounding"] else "nearest"
    return f"{lanes}-{rounding}-{build['width']}-{build['outputs']}"


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 40)
    monkeypatch.setattr(control, "GROUPS", 60)
    monkeypatch.setattr(control, "EPOCHS", 100)


def expect_good(report: SelfTestReport, config: AcceleratorConfig) -> None:
    """Assert that all blocks of the build have checks and that all checks passed."""
    assert report.passed, report.text()
    assert report.blocks == blocks_of(config)
    assert {result.block for result in report.results} == {block.name for block in report.blocks}
    assert len({result.name for result in report.results}) == len(report.results) >= 60
    shown = report.summary()
    assert all(f"\n{block.name} " in shown for block in report.blocks)


# --- good devices
@pytest.mark.parametrize(
    "build",
    [pytest.param(build, marks=[] if i in FAST else [pytest.mark.slow]) for i, build in enumerate(BUILDS)],
    ids=[build_name(build) for build in BUILDS],
)
def test_a_good_device_of_every_build_passes(build: dict[str, int], seed: int) -> None:
    device = emulator(**SMALL, **build)
    expect_good(examine(device, seed), Driver(device).config)
    assert device.allocated == 0


@pytest.mark.parametrize(
    "build",
    [
        {"max_features": 64, "row_buffer_beats": 100},
        {"max_features": 64, "row_buffer_beats": 100, "level_slots": 16, "random_rounding": True},
        {"max_features": 16384, "row_buffer_beats": 65, "outputs": 15},
        {"max_features": 256, "row_buffer_beats": 67, "level_slots": 16384, "width": 512, "outputs": 3},
        {"max_features": 128, "row_buffer_beats": 164, "address_bits": 64},
        {
            "max_features": 512,
            "row_buffer_beats": 100,
            "width": 512,
            "outputs": 2,
            "shards": 4,
            "random_rounding": True,
        },
        {"max_features": 128, "row_buffer_beats": 100, "width": 128, "shards": 2, "level_slots": 64},
        {"max_features": 256, "row_buffer_beats": 100, "width": 256, "shards": 2, "ports": 4, "outputs": 3},
    ],
    ids=str,
)
def test_the_smallest_and_the_largest_sizes_pass(build: dict[str, int], seed: int) -> None:
    device = emulator(**build)
    expect_good(examine(device, seed), Driver(device).config)


def test_the_blocks_of_a_build() -> None:
    def different(**build: int) -> set[str]:
        return {block.name for block in blocks_of(AcceleratorConfig(**build))} - {
            block.name for block in BLOCKS if block.builds is blocks.Builds.ALL
        }

    assert different() == {"digit dot lanes", "digit gradient pass"}
    assert different(level_slots=64) == {"table dot lanes", "codebook memory", "table gradient pass"}
    assert different(random_rounding=True) == different() | {"rounding of weights", "rounding of gradients"}
    assert different(outputs=2) == different() | {"model cores"}


@pytest.mark.parametrize(
    ("build", "bits", "draws"),
    [({}, {2, 4, 8, 32}, {False, True}), ({"level_slots": 64, "random_rounding": True}, {3, 4, 5}, {True})],
    ids=["digit", "table"],
)
def test_every_mode_runs(
    build: dict[str, int], bits: set[int], draws: set[bool], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    seen = []

    class Watched(Reference):
        def __init__(self, geometry, state, levels=None):
            seen.append((geometry, state.settings))
            super().__init__(geometry, state, levels)

    monkeypatch.setattr(emulator_module, "Reference", Watched)
    assert examine(emulator(**SMALL, **build), seed).passed
    assert {settings.loss for _, settings in seen} == set(Loss)
    assert {settings.prox for _, settings in seen} == set(Prox)
    assert {settings.staleness for _, settings in seen} == {0, 1}
    assert {geometry.stored_bits for geometry, _ in seen} >= bits
    assert {geometry.draws for geometry, _ in seen} == draws
    assert max(geometry.features for geometry, _ in seen) == SMALL["max_features"]
    assert any(geometry.rows % geometry.batch for geometry, _ in seen)
    assert any(geometry.batches == 1 for geometry, _ in seen)
    assert any(settings.decay < 1 << 16 for _, settings in seen)
    if "random_rounding" in build:
        assert {settings.model_cut for _, settings in seen} >= {0, 1, 30}
        assert {settings.scaled_gradient_cut for _, settings in seen} >= {0, 1, 30}
        assert max(geometry.level_slots for geometry, _ in seen) == build["level_slots"]


def test_the_same_seed_gives_the_same_report() -> None:
    def figures(seed: int) -> list[tuple[str, object]]:
        of_time = ("apparent MHz", "MB/s")
        report = examine(emulator(**SMALL), seed)
        return [(r.name, {k: v for k, v in r.figures.items() if k not in of_time}) for r in report.results]

    once = figures(3)
    assert once == figures(3)
    assert once != figures(4)


@pytest.mark.parametrize("random_rounding", [False, True])
def test_registers_keep_their_values(random_rounding: bool, seed: int) -> None:
    device = emulator(**SMALL, random_rounding=random_rounding)
    driver = Driver(device)
    words = [word for word in register_words(driver.config) if word.register.writable]
    assert ("seed" in {word.name for word in words}) == random_rounding
    for value, word in enumerate(words):
        device.write(word.offset, value)
    before = [device.read(word.offset) for word in words]
    for check in registers.CHECKS:
        assert check.run(CheckContext(driver, np.random.default_rng(seed)))
    assert [device.read(word.offset) for word in words] == before


def test_the_register_window_has_the_size_of_the_hardware() -> None:
    hw = pytest.importorskip("bitlane_hw.control.registers")
    assert WINDOW_BYTES == 1 << hw.ADDRESS_BITS


def test_a_board_without_an_unmapped_address_gets_no_address_errors(seed: int) -> None:
    class Board(EmulatorDevice):
        unmapped_address = None

        def _end(self, code):
            assert not code.name.endswith("_DECODE")
            super()._end(code)

    report = examine(emulator(kind=Board, **SMALL), seed)
    (left,) = (result for result in report.results if result.name == "run control: addresses outside the memory")
    assert report.passed and "left out" in left.line


# --- faults
def test_every_block_has_a_fault() -> None:
    assert {fault.block for fault in FAULTS} | {blocks.CONFIGURATION} == set(BLOCKS)  # and the tests below


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found_in_its_block(fault: EmulatedFault, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    report = examine(fault.open(monkeypatch), seed, timeout=1.0)
    assert fault.block.name in report.failed_blocks, report.text()
    if fault.first:
        assert report.failed_blocks[0] == fault.block.name, report.text()
        assert f"The first failure is in the {fault.block.name}: " in report.summary()
    assert f"\n{fault.block.name} " in report.summary()
    assert f"--seed {seed} " in report.summary()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("register file: DroppedBit", "phase at 0x070 reads 0x7fffffff instead of 0xffffffff"),
        ("register file: Aliased", "step at 0x060 reads"),
        ("register file: HalfDecoded", "offset 0x400 has no register and reads 0x424c414e instead of 0"),
        ("register file: Overwritten", "address_bits at 0x018 reads 0xffffffd7 instead of 0x00000028"),
        ("host memory: Unflushed", "changed, the first is word 511"),
        ("model transfer: WrongWeight", "weight of output 0, feature 0 is "),
        ("model transfer: Narrow", "changed, the first is "),
        ("epoch trace: WrongLoss", "the losses of zero weights and labels are [[1], [1], [1], [1], [1]] instead of 0"),
        ("epoch trace: ConstantStamp", "do not increase: [1000, 1000, 1000, 1000, 1000, "),
        ("read path: OneSet", "loss of epoch 1, output 0 is "),
        ("digit dot lanes: WrongDots", "loss of epoch 0, output 0 is "),
        ("counters: FewerBeats", "beats read instead of"),
        ("counters: FewerCycles", "cycles, fewer than the minimum of"),
        ("run control: NoAbort", "ended with error code 0 instead of 6"),
        ("run control: NoBusError", "with base_address outside the memory ended with error code NONE instead of READ_"),
        ("run control: Unlocked", "writing registers during a run changed its losses in epochs ["),
        ("sequencer: FailsInManyRows", "OSError: the cable is out"),
        ("update lanes: MissingClips", " saturations counted instead of "),
        ("schedule: Deaf", "weight after epoch 1, output 0, feature "),
    ],
)
def test_the_first_difference_is_named(name: str, message: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    report = examine(fault.open(monkeypatch), seed, timeout=1.0)
    assert any(message in result.problem for result in report.results), report.text()
    assert all("\n" not in result.line for result in report.results)


@pytest.mark.parametrize(
    ("build", "name", "value", "legal", "message"),
    [
        ({}, "decay", 0x10001, 0x10000, "decay=0x10001"),
        ({}, "draw_sets", 0, 1, "draw_sets=0x0"),
        ({}, "batch_tail", 0, 1, "batch_tail=0x0"),
        ({}, "epoch_tail", 2, 1, "epoch_tail=0x2"),
        ({}, "loss", 3, 0, "loss=0x3"),
        ({"level_slots": 64}, "base_digits", 4, 2, "base_digits=0x4"),
        ({"level_slots": 64}, "draws", 0, 1, "draws=0x0"),
        ({"random_rounding": True}, "model_cut", 31, 0, "model_cut=0x1f"),
        ({"random_rounding": True}, "scaled_gradient_cut", 31, 0, "scaled_gradient_cut=0x1f"),
        ({}, "trace", None, None, "trace misaligned; trace beyond 40 bits"),
    ],
)
def test_an_accepted_illegal_value_is_named(
    build: dict[str, int], name: str, value, legal, message: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = software.check_registers

    def lenient(at):
        if name == "trace":
            at["trace"] &= 0xFFFF_FFFF_F000
        elif at[name] == value:
            at[name] = legal
        return checked(at)

    monkeypatch.setattr(software, "check_registers", lenient)
    report = examine(emulator(**SMALL, **build), seed)
    assert report.failed_blocks == ["configuration checks"]
    (failed,) = (result for result in report.results if not result.passed)
    assert failed.problem.endswith(f"illegal settings were accepted: {message}")


def test_an_unknown_device_is_an_error() -> None:
    class Other(EmulatorDevice):
        def read(self, offset):
            return 0xDEAD_BEEF

    with pytest.raises(DeviceError, match="identity register holds 0xdeadbeef"):
        examine(emulator(kind=Other, **SMALL), 0)


@pytest.mark.parametrize("build", BUILDS[::9], ids=build_name)
def test_checks_run_in_the_order_of_blocks_that_they_need(build: dict[str, int]) -> None:
    """The first check of each block comes after the checks of the blocks before it in the table."""
    driver = Driver(emulator(**SMALL, **build))
    order = list(dict.fromkeys(check.block for check in all_checks(driver)))
    assert order == [*blocks_of(driver.config)]
