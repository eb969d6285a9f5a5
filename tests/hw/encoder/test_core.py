"""The encoder from beats to words, against the host's encoder: every bit, with pauses on both sides."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from tests.helpers.encoder_cases import DTYPES, EncoderCase, random_case, random_table
from tests.helpers.simulation import BlockSimulator

from bitlane.contract.encoder_cycles import LABEL_CYCLES
from bitlane.contract.encoding import CHUNK_PARTS, ENCODER_BASE_BITS, ROW_WORD_CYCLES, row_parts, table_beats
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.contract.shards import port_regions
from bitlane.quantization.scaling import fit_scaling
from bitlane.quantization.source import VALUE_TYPES
from bitlane.training.samples import SampleEncoder
from bitlane_hw.encoder.beat_words import BeatWord
from bitlane_hw.encoder.core import EncoderCore, core_latency

MAX_FEATURES = 128
ONE_WORD = (BeatWord(0, 0),)


class CoreRig:
    """A core, and a testbench that sends a source region and collects the words."""

    def __init__(self, base_bits: int, sets: int, outputs: int, words: Any = ONE_WORD, shape: Any = (1, 1)):
        self.dut = EncoderCore(MAX_FEATURES, base_bits, sets, outputs, words, *shape)
        self._simulator = BlockSimulator(self.dut)

    def run(self, case: EncoderCase, rng: Random, pauses: float = 0.0) -> tuple[list[list[int]], int]:
        """Return the words of each region, and the cycles from the first beat to the last word."""
        dut, got, last = self.dut, [[] for _ in self.dut.words], [0]

        async def testbench(ctx: Any) -> None:
            ctx.set(dut.begin, 1)
            ctx.set(dut.settings, case.settings)
            ctx.set(dut.seed, case.seed)
            await ctx.tick().repeat(2)
            ctx.set(dut.begin, 0)
            sent, cycle, taken = 0, 0, False
            while not ctx.get(dut.done):
                assert cycle < 20_000
                assert ctx.get(dut.last_taken) == (sent == len(case.source))
                if taken or not ctx.get(dut.beats.valid):  # a beat that is offered stays
                    ctx.set(dut.beats.valid, sent < len(case.source) and rng.random() >= pauses)
                more = sent < len(case.source)
                ctx.set(dut.beats.payload, beat_of(case.source[sent]) if more else rng.getrandbits(64))
                ctx.set(dut.enable, rng.random() >= pauses / 4)
                ctx.set(dut.room, rng.random() >= pauses)
                for words, found in zip(dut.words, got, strict=True):
                    if ctx.get(words.valid):
                        found.append(ctx.get(words.payload))
                        last[0] = cycle
                taken = ctx.get(dut.beats.valid) and ctx.get(dut.beats.ready)
                sent += taken
                await ctx.tick()
                cycle += 1
            assert not any(ctx.get(words.valid) for words in dut.words)

        self._simulator.run(testbench)
        return got, last[0]


def beat_of(words: Any) -> int:
    """The number whose 64-bit words these are, the lowest first."""
    return sum(int(word) << 64 * place for place, word in enumerate(np.atleast_1d(words)))


def test_words_side_by_side(seed: int) -> None:
    """Beats of two rows in two of four shards, as the second of two ports has them, with short groups at batch ends."""
    words = [BeatWord(shard, row) for shard in (2, 3) for row in (0, 1)]
    rig, rng = CoreRig(6, 2, 2, words, (2, 4)), np.random.default_rng(seed)
    for least in (129, 129, 1):  # rows of several chunks
        rows, features, kind = (
            int(rng.integers(3, 20)),
            int(rng.integers(least, 300)),
            DTYPES[rng.integers(len(DTYPES))],
        )
        X = random_table(rng, kind, rows, features)
        X[:2, -1] = 0, 1
        y, precision = rng.normal(size=(rows, 2)), Precision(2 * int(rng.integers(2, 5)))
        scaling = fit_scaling(X, y)
        encoder = SampleEncoder(X, y, scaling, precision, seed)
        if not encoder.device_can_encode(6):
            continue
        stored, batch = scaling.stored_features, int(rng.integers(1, rows + 1))
        geometry = Geometry.of(precision, stored, rows, batch, 2, 2, 4, 2)
        first = encoder.device_set(3)
        settings = {
            "value_type": int(VALUE_TYPES[kind]),
            "last_part": row_parts(stored, 4) - 1,
            "rows": geometry.groups,
            "base": 1,
            "base_digits": precision.base_digits,
            "sets": 2,
            "first_set": first.number,
            "batch_groups": geometry.batch_groups,
            **dict(zip(("batch_tail", "epoch_tail"), geometry.tails, strict=True)),
        }
        of_all = encoder.base(geometry, 0), *encoder.draws(geometry, 0, [3, 4])
        regions = [port_regions(each, geometry)[1] for each in of_all]
        source = port_regions(encoder.source(geometry, 6), geometry)[1].reshape(-1, 4)
        case = EncoderCase(geometry, settings, first.seed, source, regions)
        got, _ = rig.run(case, Random(seed), 0.2)
        assert got == [[beat_of(beat) for beat in region.reshape(-1, 4)] for region in regions]


def expected(case: EncoderCase, regions: int) -> list[list[int]]:
    return [region.tolist() for region in case.regions] + [[]] * (regions - len(case.regions))


@pytest.mark.parametrize(
    ("base_bits", "sets", "outputs"), [(14, 1, 1), pytest.param(14, 4, 3, marks=pytest.mark.slow), (8, 2, 2)]
)
def test_bits(base_bits: int, sets: int, outputs: int, seed: int) -> None:
    rig = CoreRig(base_bits, sets, outputs)
    for i in range(8):
        case, rng = random_case(seed + i, base_bits, sets, outputs), Random(seed + i)
        got, _ = rig.run(case, rng, rng.choice((0.0, 0.3)))
        assert got == expected(case, sets + 1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_cycles(dtype: Any, seed: int) -> None:
    """One part a cycle, float32 half a part; a row of a few parts waits for its random words."""
    rig = CoreRig(14, 1, 1)
    for i in range(4):
        case = random_case(seed + i, 14, 1, dtype=dtype)
        _, cycles = rig.run(case, Random(seed))
        assert cycles == predicted(case)


def test_cycles_of_label_beats(seed: int) -> None:
    """Rows of one word each: a label beat waits until the one before it has passed beside the lanes."""
    rig, found, i = CoreRig(14, 1, 1), 0, seed
    while found < 3:
        case, i = random_case(i, 14, 1, max_features=9, dtype=np.uint8, rows=20), i + 1
        if not case.settings["sets"] and case.settings["base_digits"] == 1:
            found += 1
            assert rig.run(case, Random(i))[1] == predicted(case)


def predicted(case: EncoderCase) -> int:
    """Return the cycle of the last word, token by token."""
    settings, features = case.settings, case.geometry.features
    parts, rows = row_parts(features), settings["rows"]
    halves = 2 if settings["value_type"] == 2 else 1
    base_words = settings["base_digits"] * settings["base"]
    cycle, free, row_free, label_free = table_beats(features), 0, 0, 0
    for row in range(rows):
        if row % 4 == 0:
            cycle = max(cycle, free, label_free) if settings["base"] else cycle
            label_free = cycle + core_latency(14)
            cycle += 1
        for part in range(parts):
            cycle += halves - 1
            if part == 0 and settings["sets"]:
                cycle = max(cycle, row_free)
                row_free = cycle + ROW_WORD_CYCLES
            if part % CHUNK_PARTS == CHUNK_PARTS - 1 or part == parts - 1:
                cycle = max(cycle, free)
                free = cycle + max(base_words, 1)
            cycle += 1
    return cycle - 1 + core_latency(14) + max(base_words - 1, 0)


def test_labels_are_as_far_apart_as_predicted() -> None:
    assert core_latency(ENCODER_BASE_BITS) == LABEL_CYCLES
