"""Compressors by name: each with its settings, and one line for unknown names and settings."""

from __future__ import annotations

import pytest

import bitlane.compress
from bitlane.compress import LQSGD, QSGD, Adaptive, Auto, BitAllocation, MiCRO, MQGrad, TopK
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


def test_names_and_settings():
    assert parse_compressor("none") == Uncompressed()
    assert parse_compressor("lqsgd") == LQSGD()
    assert parse_compressor("auto:period=200") == Auto(period=200)
    assert parse_compressor("lqsgd:rank=3,bits=4,alpha=2.5") == LQSGD(rank=3, bits=4, alpha=2.5)
    assert parse_compressor("qsgd:bits=mqgrad,error_feedback=True") == QSGD(bits=MQGrad(), error_feedback=True)
    assert parse_compressor("qsgd:bits=adaptive") == QSGD(bits=Adaptive())
    assert parse_compressor("qsgd:bits=allocation") == QSGD(bits=BitAllocation())
    assert parse_compressor("micro:controller=published") == MiCRO(controller="published")
    assert parse_compressor("topk:value_bits=2,chunked=True,decay=0.9") == TopK(value_bits=2, chunked=True, decay=0.9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lzma", "unknown compressor 'lzma': choose one of none, auto, qsgd"),
        ("lqsgd:speed=3", "invalid setting 'speed=3' of lqsgd: give name=value for rank, bits"),
        ("lqsgd:rank", "invalid setting 'rank' of lqsgd: give name=value for rank, bits"),
        ("qsgd:bits=many", "invalid value 'many' of qsgd:bits: use a number, mqgrad, adaptive, allocation"),
        ("qsgd:seed=many", "invalid value 'many' of qsgd:seed: use a number, True or False"),
        ("none:bits=3", "invalid setting 'bits=3' of none: none has no settings"),
        ("qsgd:bits=9", "bits=9"),
        ("micro:value_bits=5", "value_bits must be 2, 4 or 8, or 32 for float32; got 5"),
    ],
)
def test_unknown_names_and_settings(text, message):
    with pytest.raises(DataError, match=message):
        parse_compressor(text)


def test_examples_include_every_exported_compressor():
    exported = {name for name in bitlane.compress.__all__ if hasattr(getattr(bitlane.compress, name), "reducer")}
    assert exported == {type(parse_compressor(text)).__name__ for text in (*EXAMPLES, "auto")} - {"Uncompressed"}
