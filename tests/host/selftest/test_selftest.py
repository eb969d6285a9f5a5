"""The self test: a good device passes, every broken block is caught and named, and the report is whole or not there."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.emulators import emulator

from bitlane.cli import main as cli
from bitlane.cli import training_arguments
from bitlane.contract.modes import ErrorCode, Loss, Prox
from bitlane.contract.registers import CONTROL_START, REGISTERS
from bitlane.devices import emulator as emulator_module
from bitlane.devices.emulator import MEMORY_BASE, EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.errors import DeviceError
from bitlane.reference.machine import Reference
from bitlane.selftest import CheckResult, SelfTestReport, examine, registers, speed
from bitlane.selftest.arithmetic import SAMPLINGS
from bitlane.selftest.bench import CheckContext, register_words

SMALL = {"max_features": 128, "row_buffer_beats": 164, "capacity_bytes": 8 << 20}
HOLD, OWN, READ_ONLY, GAPS = (
    f"registers: {what}" for what in ("hold what is written", "each its own", "read only", "nothing between them")
)


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG_ENOUGH", 0.0)
    monkeypatch.setattr(speed, "GROUPS", 40)


def failed(device, seed: int) -> dict[str, str]:
    """Names of the checks that a device fails, and why."""
    report = examine(device, seed)
    assert len(report.results) > 50
    return {result.name: result.problem for result in report.results if not result.passed}


# --- what works ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("width", "outputs"), [(64, 1), (64, 3), (128, 2), (512, 1)])
def test_a_good_device_passes(width: int, outputs: int, seed: int) -> None:
    device = emulator(**SMALL, width=width, outputs=outputs)
    assert failed(device, seed) == {}
    assert device.allocated == 0


def test_every_mode_is_gone_through(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    seen = []

    class Watched(Reference):
        def __init__(self, geometry, state, levels=None):
            seen.append((geometry, state.settings))
            super().__init__(geometry, state, levels)

    monkeypatch.setattr(emulator_module, "Reference", Watched)
    device = emulator(**SMALL)
    assert failed(device, seed) == {}
    assert {settings.loss for _, settings in seen} == set(Loss)
    assert {settings.prox for _, settings in seen} == set(Prox)
    assert {settings.staleness for _, settings in seen} == {0, 1}
    assert {2 * geometry.digits for geometry, _ in seen} >= {2, 4, 8, 32}
    assert {geometry.draws for geometry, _ in seen} == {False, True}
    assert max(geometry.features for geometry, _ in seen) == SMALL["max_features"]
    assert any(geometry.rows % geometry.batch for geometry, _ in seen)
    assert any(geometry.batches == 1 for geometry, _ in seen)
    assert any(settings.decay < 1 << 16 for _, settings in seen)


def test_the_same_seed_does_the_same() -> None:
    def figures(seed: int) -> list[tuple[str, object]]:
        timeless = ("apparent MHz", "MB/s")
        report = examine(emulator(**SMALL), seed)
        return [(r.name, {k: v for k, v in r.figures.items() if k not in timeless}) for r in report.results]

    once = figures(3)
    assert once == figures(3)
    assert once != figures(4)


def test_registers_are_what_they_were(seed: int) -> None:
    device = emulator(**SMALL)
    words = [word for word in register_words() if word.register.writable]
    for value, word in enumerate(words):
        device.write(word.offset, value)
    before = [device.read(word.offset) for word in words]
    for check in registers.CHECKS:
        assert check.run(CheckContext(Driver(device), np.random.default_rng(seed)))
    assert [device.read(word.offset) for word in words] == before


def test_the_window_is_what_the_hardware_decodes() -> None:
    hw = pytest.importorskip("bitlane_hw.control.registers")
    assert registers.WINDOW_BYTES == 1 << hw.ADDRESS_BITS


# --- what is broken ------------------------------------------------------------------------------
class Blurred(EmulatorDevice):
    """A bit of a weight is wrong wherever models are stored."""

    def _store(self, address, words):
        at = self._values["model_out"]
        if at <= address < at + 128:
            words = words.copy()
            words[0] ^= np.uint64(1 << 9)
        super()._store(address, words)


class BlurredLosses(EmulatorDevice):
    """The lowest bit of each loss is wrong."""

    def _store(self, address, words):
        at = self._values["trace"]
        if at <= address < at + 16 * self._values["epochs"]:
            words = words.copy()
            words[1] ^= np.uint64(1)
        super()._store(address, words)


class Dropping(EmulatorDevice):
    """A bit of a register is never stored, the top one of the phase."""

    def write(self, offset, value):
        super().write(offset, value & 0x7FFF_FFFF if offset == REGISTERS["phase"].offset else value)


class Aliased(EmulatorDevice):
    """Two registers are one."""

    def _same(self, offset):
        return REGISTERS["step"].offset if offset == REGISTERS["step_negative"].offset else offset

    def read(self, offset):
        return super().read(self._same(offset))

    def write(self, offset, value):
        super().write(self._same(offset), value)


class HalfDecoded(EmulatorDevice):
    """An address bit is left out: all is there twice."""

    def read(self, offset):
        return super().read(offset & 0x3FF)

    def write(self, offset, value):
        assert offset == REGISTERS["control"].offset or offset & 0x3FF != 0x20 or not value & CONTROL_START
        super().write(offset & 0x3FF, value)


class Overwritten(EmulatorDevice):
    """A capability can be written."""

    def write(self, offset, value):
        if offset == REGISTERS["address_bits"].offset:
            self._values["address_bits"] = value
        super().write(offset, value)


class Counting(EmulatorDevice):
    """The cycle counter misses a part of every run."""

    def read(self, offset):
        value = super().read(offset)
        return value * 3 // 4 if offset == REGISTERS["cycles"].offset else value


class SkippingBeats(EmulatorDevice):
    """The beat counter misses one."""

    def read(self, offset):
        value = super().read(offset)
        return value - 1 if offset == REGISTERS["beats"].offset and value else value


class Unflushed(EmulatorDevice):
    """What the host wrote reaches all of a buffer but its last words."""

    def flush(self, buffer):
        kept = buffer.array[511:].copy()
        buffer.array[511:] = 0
        super().flush(buffer)
        buffer.array[511:] = kept


class Narrow(EmulatorDevice):
    """Address bit 22 is not connected."""

    def _words(self, address, count, code):
        return super()._words(MEMORY_BASE + (address - MEMORY_BASE & ~(1 << 22)), count, code)


class OneSet(EmulatorDevice):
    """Every epoch reads the first set."""

    def _feed(self, reference, geometry, at, number):
        super()._feed(reference, geometry, at, 0)


class NoAbort(EmulatorDevice):
    """An abort looks like a good end."""

    def _end(self, code):
        super()._end(ErrorCode.NONE if code == ErrorCode.ABORTED else code)


class Unlocked(EmulatorDevice):
    """Registers written in the middle of a run change it."""

    def _feed(self, reference, geometry, at, number):
        reference._settings = replace(reference._settings, step=self._values["step"])
        super()._feed(reference, geometry, at, number)


class Exploding(EmulatorDevice):
    """Something that nobody thought of happens in long runs."""

    def _feed(self, reference, geometry, at, number):
        if geometry.rows == 300:
            raise OSError("the cable is out")
        super()._feed(reference, geometry, at, number)


@pytest.mark.parametrize(
    ("broken", "names", "word", "works"),
    [
        (Dropping, {HOLD}, "phase at 0x070 reads 0x7fffffff instead of 0xffffffff", "loss: squares"),
        (Aliased, {OWN, "class weights: two steps"}, "step at 0x060 reads", HOLD),
        (HalfDecoded, {GAPS}, "offset 0x400, where there is no register, reads 0x424c414e", "loss: squares"),
        (Overwritten, {READ_ONLY}, "address_bits at 0x018 reads 0xffffffd7 instead of 0x00000028", "loss: squares"),
        (Unflushed, {"memory: flush and invalidate"}, "words of the buffer at", "loss: squares"),
        (Narrow, {"memory: buffers far apart"}, "changed", "loss: squares"),
        (OneSet, {"epochs: draws in turn", "epochs: samples in turn"}, "weight of model", "precision: 4 bits, nearest"),
        (NoAbort, {"abort: in the middle of a run"}, "ended with error code 0 instead of 6", "loss: squares"),
        (Unlocked, {"abort: in the middle of a run"}, "changed its losses in epochs [1", "loss: squares"),
        (Exploding, {"rows: many"}, "OSError: the cable is out", "loss: squares"),
    ],
)
def test_a_broken_block_is_named(broken, names: set[str], word: str, works: str, seed: int) -> None:
    found = failed(emulator(kind=broken, **SMALL), seed)
    assert names <= set(found)
    assert any(word in found[name] for name in names), found
    assert works not in found


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        (Blurred, "wrong, the first: weight of model, output and feature 0, 0, 0 is "),
        (BlurredLosses, "wrong, the first: loss of epoch and output"),
        (Counting, "cycles, fewer than the"),
        (SkippingBeats, "beats read instead of"),
    ],
)
def test_what_breaks_every_run_is_said_in_every_run(broken, word: str, seed: int) -> None:
    found = failed(emulator(kind=broken, **SMALL), seed)
    assert word in found["prox: none"]
    assert {name for name in found if name.startswith("registers: ")} <= {READ_ONLY}
    assert {f"precision: 4 bits, {sampling}" for sampling in SAMPLINGS} <= set(found)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"loss": Loss.SQUARES}, {"loss: hinge", "loss: logistic", "class weights: two steps"}),
        ({"prox": Prox.NONE}, {"prox: l2", "prox: l1", "prox: box", "intercept: spared by the prox"}),
        ({"unpenalized_intercept": False}, {"intercept: spared by the prox"}),
        ({"step_negative": 0x9000 | 8 << 16}, {"class weights: two steps"}),
        ({"decay": 1 << 16}, {"decay: of steps and rate"}),
        ({"phase": 0}, {"prox: l2"}),
        ({"bounds": (-(1 << 15), (1 << 15) - 1)}, {"prox: box"}),
        ({"staleness": 0}, {"staleness: 1, batch by batch", "staleness: 1, larger batches"}),
    ],
)
def test_a_mode_that_is_not_there_is_named(change, names: set[str], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Reference):
        """One setting does not arrive."""

        def __init__(self, geometry, state, levels=None):
            super().__init__(geometry, replace(state, settings=replace(state.settings, **change)), levels)

    monkeypatch.setattr(emulator_module, "Reference", Deaf)
    found = failed(emulator(**SMALL), seed)
    assert names <= set(found)
    assert not {"loss: squares", "prox: none", "epochs: draws in turn"} & set(found)


@pytest.mark.parametrize(
    ("name", "value", "instead", "word"),
    [
        ("decay", 0x10001, 0x10000, "decay=0x10001"),
        ("draw_sets", 0, 1, "draw_sets=0x0"),
        ("trace", None, None, "trace misaligned, trace beyond the port"),
    ],
)
def test_what_should_be_refused_is_named(
    name, value, instead, word, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = emulator_module._checked

    def lenient(at):
        if name == "trace":
            at["trace"] &= 0xFFFF_FFFF_F000
        elif at[name] == value:
            at[name] = instead
        return checked(at)

    monkeypatch.setattr(emulator_module, "_checked", lenient)
    found = failed(emulator(**SMALL), seed)
    assert list(found) == ["refusals: configurations that make no run"]
    assert found["refusals: configurations that make no run"].endswith(f"were not refused: {word}")


def test_no_accelerator_is_an_error() -> None:
    class Other(EmulatorDevice):
        def read(self, offset):
            return 0xDEAD_BEEF

    with pytest.raises(DeviceError, match="identity register holds 0xdeadbeef"):
        examine(emulator(kind=Other, **SMALL), 0)


# --- the command ---------------------------------------------------------------------------------
@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and an emulator of a small build."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training_arguments, "open_device", lambda *_: emulator(**SMALL))
    return tmp_path


def test_the_command_prints_and_writes_a_report(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selftest", "--device", "emulator", "--seed", "7", "--out", "report.txt"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (here / "report.txt").read_text() + "written to report.txt\n"
    assert "\n  seed           7\n" in out
    assert "\nall 56 checks passed in " in out


def test_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selftest", "--out", "report.json"]) == 0
    report = json.loads((here / "report.json").read_text())
    assert report["passed"] is True
    assert report["facts"]["identity"] == "0x424c414e"
    assert f"\n  seed           {report['facts']['seed']}\n" in capsys.readouterr().out
    loss = next(result for result in report["results"] if result["name"] == "loss: hinge")
    assert loss["passed"] and loss["figures"]["epochs"] == 3 and loss["figures"]["cycles"] > loss["figures"]["beats"]


def test_a_failed_check_is_exit_status_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training_arguments, "open_device", lambda *_: emulator(kind=Dropping, **SMALL))
    assert cli.main(["selftest", "--out", "report.txt"]) == 1
    out = capsys.readouterr().out
    assert f"FAIL  {HOLD} " in out
    assert out.index("FAIL") < out.index("pass  loss: squares")
    assert (here / "report.txt").read_text() == out[: out.index("written to ")]
    assert re.search(rf"\n\d+ of 56 checks FAILED in [\d.]+ s: {HOLD}, ", out)


@pytest.mark.parametrize("out", ["", "nowhere/report.txt"])
def test_a_report_that_cannot_be_written_is_told_first(
    here: Path, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["selftest", "--out", out or str(here)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "give the name of a file" in printed.err
    assert list(here.iterdir()) == []


def test_a_report_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = SelfTestReport({"seed": "1"}, (CheckResult("a: b", 0.1, {"bits": 3}),))
    path = tmp_path / "report.txt"
    path.write_text("the one before")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        report.write(path)
    assert [each.name for each in tmp_path.iterdir()] == ["report.txt"]
    assert path.read_text() == "the one before"
