"""The reference of the encoder against the host's encoder, which knows nothing of source regions."""

from __future__ import annotations

import numpy as np
from tests.helpers.encoder_cases import random_case

from bitlane.contract.draws import DrawSet
from bitlane.contract.encoding import ENCODER_BASE_BITS, ValueType
from bitlane.reference.encoder import EncodeSettings, encode_source


def test_regions(seed: int) -> None:
    for i in range(40):
        outputs = 1 + i % 3
        case = random_case(seed + i, ENCODER_BASE_BITS, 4, outputs)
        given, geometry = case.settings, case.geometry
        settings = EncodeSettings(
            ValueType(given["value_type"]),
            geometry,
            bool(given["base"]),
            given["sets"],
            DrawSet(case.seed, given["first_set"]),
        )
        assert settings.source_words == len(case.source)
        base, draws = encode_source(case.source, settings, ENCODER_BASE_BITS)
        assert (base is None) == (not given["base"])
        for found, expected in zip(
            [np.empty(0, np.uint64) if base is None else base, *draws], case.regions, strict=True
        ):
            assert np.array_equal(found, expected)
