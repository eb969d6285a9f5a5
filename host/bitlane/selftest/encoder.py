"""Checks of the encoder: every word with the host's encoder, and the error codes of wrong registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.draws import DrawSet
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import BURST_BEATS
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import Words
from bitlane.contract.precision import Precision
from bitlane.driver.buffers import SampleBuffers, SourceBuffers
from bitlane.driver.encoding import Encoding, region_words
from bitlane.errors import DeviceError
from bitlane.quantization.scaling import fit_scaling
from bitlane.quantization.source import VALUE_TYPES
from bitlane.training.samples import SampleEncoder

from .bench import BlockCheck, CheckContext, expect
from .blocks import ENCODER
from .cases import random_seed
from .report import Figures

BITS = (2, 4, 8, 16)
ROWS, BATCH = 21, 10  # the last group of each batch is short, if groups have several rows
SHORTEST = MemoryTiming(1, 1)


def _table(rng: np.random.Generator, dtype: np.dtype[Any], features: int) -> Any:
    values = rng.normal(size=(ROWS, features)) * 30 + 100
    return (values.clip(0, 255) if dtype == np.uint8 else values).astype(dtype)


def _geometry(config: AcceleratorConfig, precision: Precision, features: int) -> Geometry:
    rows, outputs, shards, ports = config.rows_per_beat, config.outputs, config.shards, config.ports
    return Geometry.of(precision, features, ROWS, BATCH, rows, outputs, shards, ports)


def words(bench: CheckContext) -> Figures:
    """Encode tables of each type at several precisions, with one more draw set than fits one start."""
    driver, device, rng = bench.driver, bench.device, bench.rng
    compared = cycles = 0
    for dtype in VALUE_TYPES:
        for bits in BITS:
            features = int(rng.integers(2, min(100, bench.config.max_features) + 1))
            X, y = _table(rng, dtype, features), rng.normal(size=(ROWS, bench.config.outputs))
            scaling, precision = fit_scaling(X, y), Precision(bits)
            encoder = SampleEncoder(X, y, scaling, precision, random_seed(rng))
            geometry = _geometry(bench.config, precision, scaling.stored_features)
            numbers = range(bench.config.encoder + 1)
            encoding = Encoding(geometry, VALUE_TYPES[dtype], True, [encoder.device_set(number) for number in numbers])
            apart = region_words(geometry)
            with (
                SampleBuffers(device, geometry, geometry.base_words, apart * len(numbers)) as samples,
                SourceBuffers(device, geometry, encoding.source_words) as source,
            ):
                source.fill(encoder.source(geometry, ENCODER_BASE_BITS))
                counters = driver.encode(encoding, samples, source)
                base, drawn = samples.read()
                regions = [base, *drawn.reshape(-1, apart)[:, : geometry.draw_words]]
            expected = [encoder.base(geometry, 0), *encoder.draws(geometry, 0, numbers)]
            for region, (a, b) in enumerate(zip(regions, expected, strict=True)):
                _expect_words(a, b, f"{dtype}, {bits} bits, region {region}")
                compared += len(b)
            sets = min(len(numbers), bench.config.encoder)
            least = predict_encoding(geometry, VALUE_TYPES[dtype], True, sets, SHORTEST).least
            quick = f"{dtype}, {bits} bits: {counters[0].cycles} cycles, but {least} are needed"
            expect(counters[0].cycles >= least, quick)
            cycles += sum(each.cycles for each in counters)
    return {"words": compared, "cycles": cycles}


def refuses(bench: CheckContext) -> Figures:
    """Start an encoding of a source region that is too short, which must end with CONFIGURATION."""
    X, y = bench.rng.normal(size=(ROWS, 40)).astype(np.float32), np.zeros((ROWS, bench.config.outputs))
    y[0] = 1
    scaling, precision = fit_scaling(X, y), Precision(4)
    geometry = _geometry(bench.config, precision, 40)
    short = _Short(geometry, VALUE_TYPES[X.dtype], True, [DrawSet(1, 0)])
    encoder = SampleEncoder(X, y, scaling, precision, 0)
    with (
        SampleBuffers(bench.device, geometry, geometry.base_words, region_words(geometry)) as samples,
        SourceBuffers(bench.device, geometry, short.source_words) as source,
    ):
        source.fill(encoder.source(geometry, ENCODER_BASE_BITS)[: short.source_words])
        try:
            bench.driver.encode(short, samples, source)
        except DeviceError as error:
            expect(error.code == ErrorCode.CONFIGURATION, f"the encoding ended with {error}")
        else:
            expect(False, "the encoding of a source region that is too short succeeded")
    return {"refused": 1}


class _Short(Encoding):
    """An encoding of a source region that lacks its last burst."""

    @property
    def source_words(self) -> int:
        return super().source_words - BURST_BEATS * self.geometry.words_per_beat


def _expect_words(actual: Words, expected: Words, what: str) -> None:
    wrong = np.flatnonzero(actual != expected)
    expect(not wrong.size, f"{what}: word {wrong[:1]} of {len(expected)} differs, and {len(wrong)} in all")


def checks(config: AcceleratorConfig) -> tuple[BlockCheck, ...]:
    """Return the checks of a build."""
    if not config.encoder:
        return ()
    return (
        BlockCheck(ENCODER, "words of the host's encoder", words),
        BlockCheck(ENCODER, "source region that is too short", refuses),
    )
