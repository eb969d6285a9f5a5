"""The study of a scoring service, with few keys."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bitlane_studies.sparse import serving as study
from bitlane_studies.sparse.serving_load import varint_bytes

pytest.importorskip("pyarrow.flight")


@pytest.mark.slow
def test_the_command_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    study.main(["--keys", "3000", "--rows", "20", "--features", "50", "--rate", "50", "--seconds", "0.7"])
    times, sizes = capsys.readouterr().out.strip().split("\n\n")
    lines = times.splitlines()
    assert lines[0].startswith("20 x 50 features, 3,000 keys")
    names = [re.split(r"  +", line.strip())[0] for line in lines[2:]]
    one = [
        "of it in the server",
        "one client, during swaps",
        "4 clients, 50 requests/s",
        "4 clients, 50 requests/s, during swaps",
    ]
    assert names[1:5] == one and names[6:] == one
    assert re.fullmatch(r"lr, 1\d\.\d bytes a key: one client", names[0])
    assert re.fullmatch(r"fm, 4\d\.\d bytes a key: one client", names[5])
    for line in lines[2:]:
        count, *quantiles = (float(each) for each in line.split()[-4:])
        assert count >= 20 and quantiles == sorted(quantiles) and quantiles[0] > 0
    found = {re.split(r"  +", line)[0]: int(line.split()[-1].replace(",", "")) for line in sizes.splitlines()[2:]}
    assert found["Arrow"] > 8 * 1000 and found["JSON"] > 18 * 1000
    assert found["protobuf, keys as fixed64"] < found["protobuf, keys as uint64"] < 10.5 * 1000


def test_bytes_of_protobuf_are_those_of_its_library(seed: int) -> None:
    """`google.protobuf` writes the same numbers as a packed field of uint64."""
    protobuf = pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    assert protobuf.__version__
    file = descriptor_pb2.FileDescriptorProto(name="numbers.proto", package="tests", syntax="proto3")
    field = file.message_type.add(name="Numbers").field.add(name="number", number=1)
    field.type, field.label = field.TYPE_UINT64, field.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    numbers = message_factory.GetMessageClass(pool.FindMessageTypeByName("tests.Numbers"))
    draw = np.random.default_rng(seed)
    for count in (0, 1, 20, 5000):
        given = draw.integers(0, 2**64, count, dtype=np.uint64) >> draw.integers(0, 64, count).astype(np.uint64)
        assert varint_bytes(given) == numbers(number=given.tolist()).ByteSize()
