"""Predicted builds: against the layout bound, other predictions and hand-made sums."""

from dataclasses import replace

import numpy as np
import pytest

from bitlane.contract.cycles import predict
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane_studies.when_it_wins.accelerator import (
    CALL,
    CARDS,
    LINK_READ,
    LINK_WRITE,
    PredictedBuild,
    encoder_table,
    pack_seconds,
    phase_table,
    shipped,
)
from bitlane_studies.when_it_wins.table import EPOCHS


def test_a_build_that_exists_takes_the_cycles_of_its_geometry_and_clock(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, features, batch = (int(each) for each in rng.integers(1, [500, 300, 100]))
    build = shipped()
    geometry = Geometry.of(Precision(4), features, rows, batch, build.rows_per_beat)
    cycles = predict(geometry, EPOCHS, snapshots=False).cycles
    assert build.train(rows, features, batch, 4) == pytest.approx(cycles / build.clock_mhz / 1e6 / 0.979)
    assert build.built and build.train(rows, features, batch, 16) < build.train(rows, features, batch, 32)


@pytest.mark.parametrize(("batch", "millions"), [(16, 112), (64, 243), (256, 344)])
def test_sixteen_ports_train_the_rows_of_the_trial_in_verilog(batch: int, millions: int) -> None:
    """Its model of cycles was another program, which 690 runs of that trial agreed with."""
    rate = 60_000 * EPOCHS / CARDS[2].train(60_000, 717, batch, 4) / 1e6
    assert rate == pytest.approx(millions, abs=0.5)


def test_designs_are_at_most_as_fast_as_their_ports(seed: int) -> None:
    """A row has 4 bits of each feature, and labels; a port brings 256 bits a cycle."""
    features = int(np.random.default_rng(seed).integers(1, 2000))
    for build in CARDS:
        assert 64 * build.rows_per_beat * build.shards == 256 * build.ports
        least = EPOCHS * 10_000 * (4 * features + 16) / (256 * build.ports) / build.clock_mhz / 1e6
        assert least < build.train(10_000, features, 64, 4)


def test_a_fit_by_phase_on_a_card() -> None:
    """One port of 64 bits, 64 features in two chunks: a row has 2 words of base codes and 8 sets of 2 words of draws,
    and every fourth row a word of labels. A model of 64 weights of 32 bits has 256 bytes.
    """
    host = {"prepare": 0.1, "encode": 0.2, "copy": 0.05, "train": 0.4}
    build = replace(CARDS[0], rows_per_beat=1, ports=1)
    head, *lines = phase_table(host, 400_000, 64, 16, [build])
    assert len(head) == 3 and [line[1] for line in lines[:6]] == ["100.0", "200.0", "50.0", "400.0", "0.0", "750.0"]
    transfer = 8 * (400_000 * 18 + 100_000) / LINK_WRITE
    train = build.train(400_000, 64, 16, 4)
    back = 256 / LINK_READ + CALL
    parts = [0.1, 0.2, transfer, train, back]
    sums = [sum(parts), sum(parts[2:]), sum(parts[3:])]
    assert [line[2] for line in lines] == [f"{1e3 * each:.1f}" for each in (*parts, *sums)]


def test_a_fit_by_phase_with_encoders_on_a_card() -> None:
    """One port of 64 bits: a row of 64 float32 values has 32 words, every fourth row a word of labels, and a feature
    two words of scales. A row takes 32 cycles, which its 2 + 8 * 2 words to write do not delay.
    """
    build = replace(CARDS[0], rows_per_beat=1, ports=1)
    _, *lines = encoder_table({"prepare": 0.1, "pack": 0.2}, 400_000, 64, 16, [build])
    words = 400_000 * 32 + 100_000 + 128
    transfer, encode = 8 * words / LINK_WRITE, words / build.clock_mhz / 1e6
    train, back = build.train(400_000, 64, 16, 4), 256 / LINK_READ + CALL
    parts = [0.1, 0.2, transfer, encode, train, back]
    sums = [sum(parts), sum(parts[1:]), sum(parts[3:]), sum(parts[4:])]
    assert [float(line[1]) for line in lines] == pytest.approx([1e3 * each for each in (*parts, *sums)], abs=0.06)


def test_sixteen_ports_encode_as_many_times_the_rows_of_a_narrow_build(seed: int) -> None:
    """Each of their 64 words takes 4 values a cycle. Rows of 2,048 features fill all words."""
    narrow, rows = replace(CARDS[0], rows_per_beat=1), 80_000 + 64 * int(np.random.default_rng(seed).integers(100))
    times = narrow.encode(rows, 2048, 64, 4) / CARDS[2].encode(rows, 2048, 64, 4)
    assert times == pytest.approx(64, rel=0.01)


def test_packing_of_raw_rows_takes_time(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(300, 20)).astype(np.float32)
    assert pack_seconds(X, X[:, 0], 2) > 0


def test_one_more_port_is_a_parameter() -> None:
    two = PredictedBuild("two", 4, 2, 2, 250.0, False, {4: 0.5})
    halved = replace(two, shares={})
    assert two.train(1000, 64, 16, 4) == 2 * halved.train(1000, 64, 16, 4)
