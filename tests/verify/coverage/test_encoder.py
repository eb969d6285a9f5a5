"""The coverpoints of the encoder: their bins, encodings that fill them, and faults that the stimulus finds."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import CONTROL_ENCODE, REGISTERS, STATUS_ERROR_SHIFT
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver import registers
from bitlane_sim.rtl.build import build
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.coverage.encoder import CONFIG, EncoderStimulus, declare, open_rig, sample
from bitlane_verify.coverage.illegal_registers import illegal_encodings
from bitlane_verify.equivalence import encoder_soak
from bitlane_verify.equivalence.encoder_soak import EncodingCase, encoded

RUNS = 40


@pytest.fixture(scope="module")
def rig():
    """Return the rig of the build that the equivalence tests compile too."""
    rig = open_rig(encoder_soak.CONFIG, build(encoder_soak.CONFIG))
    yield rig
    rig.close()


def test_runs_fill_bins(rig, seed):
    group = declare(encoder_soak.CONFIG)
    empty = len(group.missed())
    stimulus = EncoderStimulus(rig, group)
    for i in range(RUNS):
        stimulus.run(seed + i)
    stimulus.sample_buses()
    assert stimulus.failures == []
    assert len(group.missed()) < empty // 2


def test_a_wrong_word_is_a_failure(rig, seed, monkeypatch):
    """Every encoding is compared: with another reference each kind of run that compares fails."""
    monkeypatch.setattr(
        EncodingCase, "regions", lambda case: [np.zeros(1)] * (case.encoding.writes_base + len(case.numbers))
    )
    stimulus = EncoderStimulus(rig, declare(encoder_soak.CONFIG))
    for i in range(5):
        stimulus.run(seed + i)
    assert len(stimulus.failures) == 5
    assert all("differs from the host's encoder" in failure for failure in stimulus.failures)


def test_a_start_that_is_not_refused_is_found(rig, seed):
    """After an encoding its registers are legal; no features are not, and the old value comes back."""
    rng = np.random.default_rng(seed)
    case, device = EncodingCase.random(rng, seed, encoder_soak.CONFIG), rig.rtl[rig.timing(rng)]
    device.disturb(Disturbance())
    encoded(device, case.encoding, case.source)
    assert device.refuses(CONTROL_ENCODE, {"features": 0}) == ""
    assert device.value("features") == case.encoding.geometry.features
    assert "must be refused" in device.refuses(CONTROL_ENCODE, {})
    device.reset()


def test_bins_of_an_encoding(seed):
    """The sizes of the last part, chunk and label word, and the starts, by hand."""
    rng = np.random.default_rng(seed)
    case = EncodingCase.random(rng, seed, CONFIG)
    group = declare(CONFIG)
    empty = set(group.missed())
    sample(group, case, CONFIG)
    hit = empty - set(group.missed())
    features, rows, kind = case.encoding.geometry.features, case.encoding.geometry.rows, case.encoding.value_type.name
    assert f"values of the last part: {features % 4 or 4}" in hit
    assert f"parts of the last chunk: {-(-(features % 32 or 32) // 4)}" in hit
    assert f"rows of the last label word: {rows % 4 or 4}" in hit
    assert any(name.startswith(f"rank in the column: {kind}") for name in hit)
    starts: list[list[int]] = []
    for number in case.numbers:  # of a group of 16, one after the other, two at a time
        follows = starts and number == starts[-1][-1] + 1 and number % 16 and len(starts[-1]) < 2
        starts = [*starts[:-1], [*starts[-1], number]] if follows else [*starts, [number]]
    sizes = {len(each) for each in starts} or {0}
    assert {name for name in hit if name.startswith("draw sets of a start")} == {
        f"draw sets of a start: {size}" for size in sizes
    }


def test_the_emulator_refuses_illegal_encodings_too(seed):
    device = EmulatorDevice(CONFIG)
    case = EncodingCase.random(np.random.default_rng(seed), seed, CONFIG)
    encoded(device, case.encoding, case.source)
    for rule, values in illegal_encodings(CONFIG).items():
        kept = {name: registers.read(device, name) for name in values}
        for name, value in values.items():
            registers.write(device, name, value)
        device.write(REGISTERS["control"].offset, CONTROL_ENCODE)
        while (status := device.read(REGISTERS["status"].offset)) & 1:
            pass
        assert status >> STATUS_ERROR_SHIFT == ErrorCode.CONFIGURATION, rule
        for name, value in kept.items():
            registers.write(device, name, value)
