"""Random encodings of the RTL against the reference and the host's encoder; errors, aborts and resets in any cycle."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.layout import BURST_BEATS
from bitlane.contract.modes import ErrorCode
from bitlane.errors import DeviceError
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.equivalence import encoder_soak
from bitlane_verify.equivalence.encoder_soak import EncoderRig, EncodingCase, encoded
from bitlane_verify.equivalence.interrupted import Interrupted
from bitlane_verify.equivalence.rig import random_stalls

RUNS = 60
WIDE = AcceleratorConfig(width=256, shards=2, ports=2, max_features=256, row_buffer_beats=512, encoder=2)


@pytest.fixture(scope="module")
def rig():
    """Return the RTL and the reference."""
    rig = EncoderRig(encoder_soak.CONFIG)
    yield rig
    rig.close()


def test_random_encodings(rig, seed):
    assert [str(run) for i in range(RUNS) if (run := rig.run(seed + i)).wrong] == []


@pytest.mark.slow  # builds a simulator of 256 bits
def test_random_encodings_of_wide_beats(seed):
    """Two ports with two rows of one shard each, encoded in step; batches may end with a short group."""
    rig = EncoderRig(WIDE)
    try:
        assert [str(run) for i in range(RUNS) if (run := rig.run(seed + i)).wrong] == []
    finally:
        rig.close()


@pytest.mark.parametrize("happening", ["abort", "reset"])
def test_interrupted_at_any_cycle(rig, seed, happening):
    """The driver says what ended the encoding, or its words are correct; the next encoding is correct."""
    rng = np.random.default_rng(seed)
    ended = set()
    for i in range(RUNS // 2):
        case, timing = EncodingCase.random(rng, seed + i, rig.config), rig.timing(rng)
        encoding, device = case.encoding, rig.rtl[timing]
        cycles = predict_encoding(encoding.geometry, encoding.value_type, encoding.writes_base, len(case.numbers)).least
        moment = int(rng.choice((rng.integers(cycles), rng.integers(40))))
        device.disturb(random_stalls(rng))
        free = device.free_bytes
        try:
            got, _ = encoded(Interrupted(device, moment, happening), encoding, case.source)
            assert all(map(np.array_equal, got, case.regions()))
        except DeviceError as error:
            assert "lost its run" in str(error) if happening == "reset" else error.code == ErrorCode.ABORTED
            ended.add(happening)
        assert device.free_bytes == free, "buffers leaked"
        assert rig.compare(case, timing, Disturbance()) == "", "the next encoding is wrong"
    assert ended == {happening}


@pytest.mark.parametrize("side", ["read", "write"])
def test_error_response(rig, seed, side):
    """A failed burst ends the encoding with its code; the next one is correct."""
    rng = np.random.default_rng(seed)
    hits = 0
    for i in range(RUNS // 2):
        case, timing = EncodingCase.random(rng, seed + i, rig.config), rig.timing(rng)
        geometry, device = case.encoding.geometry, rig.rtl[timing]
        words = geometry.base_words if case.encoding.writes_base else geometry.draw_words
        bursts = (case.encoding.source_words if side == "read" else words) // BURST_BEATS
        error = ("slave", "decode")[rng.integers(2)]
        failing = {f"{side}_error_burst": int(rng.integers(bursts + 1)), "error": error}
        device.disturb(dataclasses.replace(random_stalls(rng), **failing))
        free = device.free_bytes
        try:
            encoded(device, case.encoding, case.source)
        except DeviceError as raised:
            assert raised.code == ErrorCode[f"{side}_{error}".upper()]
            hits += 1
        assert device.free_bytes == free, "buffers leaked"
        assert rig.compare(case, timing, Disturbance()) == "", "the next encoding is wrong"
    assert hits > RUNS // 8
