"""The study of DiLoCo: equal steps in each way, bytes as the formula has them."""

from __future__ import annotations

import pytest

from bitlane.compress.collectives.launch import launch
from bitlane.compress.training.experiment import NetworkTraining
from bitlane.errors import BitlaneError
from bitlane.studies.compression.local import LocalTrial, Setup, main, run_rank, table

pytestmark = pytest.mark.torch

VALUES = 784 * 256 + 256 + 256 * 256 + 256 + 2560 + 10  # of the perceptron


def test_bytes_of_each_way(data_dir):
    setup = Setup(NetworkTraining("perceptron", ranks=2), "mnist", steps=6, every=3)
    for trials in launch(run_rank, 2, setup, timeout=300):
        sent = [trial.bytes_sent for trial in trials]
        assert sent[0] == 6 * (4 * VALUES + 32)  # of a ring, and a header
        assert sent[1] == 2 * (4 * VALUES + 32)
        assert 0.5 < sent[2] / 2 / VALUES < 0.51
        assert all(0 < trial.loss < 2.5 and 0 <= trial.accuracy <= 1 for trial in trials)


def test_the_table_shows_the_rank_that_sends_most():
    ranks = [
        [LocalTrial(1.5, 0.4, 4_000_000), LocalTrial(1.6, 0.3, 40_000), LocalTrial(1.7, 0.2, sent)] for sent in (1, 2)
    ]
    assert [line.split()[-4:] for line in table(ranks).splitlines()[2:]] == [
        ["1.5000", "0.4000", "4.000", "1.00000"],
        ["1.6000", "0.3000", "0.040", "0.01000"],
        ["1.7000", "0.2000", "0.000", "0.00000"],
    ]


def test_a_wrong_setting_is_one_line():
    with pytest.raises(BitlaneError, match="unknown images 'cats'"):
        main(["--images", "cats"])
