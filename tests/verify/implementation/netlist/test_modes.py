"""The modes that a series of netlist runs must have, and the errors of the command."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bitlane.contract.draws import DrawSet
from bitlane.contract.encoding import ValueType
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.precision import Precision
from bitlane.driver.encoding import Encoding
from bitlane.driver.job import Job
from bitlane_verify.equivalence.random_jobs import random_job
from bitlane_verify.implementation.netlist.__main__ import BUILDS, main
from bitlane_verify.implementation.netlist.modes import missing_encoder_modes, missing_modes


def job(loss: Loss, prox: Prox, staleness: int, base_digits: int, draws: bool) -> Job:
    """Return a job with these modes."""
    any_job = random_job(np.random.default_rng(0))
    geometry = replace(any_job.geometry, base_digits=base_digits, draws=draws)
    settings = replace(any_job.state.settings, loss=loss, prox=prox, staleness=staleness)
    return replace(any_job, geometry=geometry, state=replace(any_job.state, settings=settings))


DIGITS = BUILDS["digits"]
JOBS = [
    job(Loss.SQUARES, Prox.NONE, 0, 1, draws=True),
    job(Loss.HINGE, Prox.L1, 0, 3, draws=True),
    job(Loss.LOGISTIC, Prox.L2, 1, 16, draws=False),
    job(Loss.SQUARES, Prox.BOX, 0, 16, draws=False),
]


def test_all_modes_are_met() -> None:
    assert [each.geometry.stored_bits for each in JOBS] == [4, 8, 32, 32]
    assert missing_modes(JOBS, DIGITS) == []


@pytest.mark.parametrize(
    ("without", "left"),
    [
        (0, ["prox NONE", "1 more precisions"]),
        (1, ["loss HINGE", "prox L1", "1 more precisions"]),
        (2, ["loss LOGISTIC", "prox L2", "staleness 1"]),
        (3, ["prox BOX"]),
    ],
)
def test_missing_modes_are_named(without: int, left: list[str]) -> None:
    assert missing_modes(JOBS[:without] + JOBS[without + 1 :], DIGITS) == left


def test_other_builds_have_other_modes() -> None:
    assert missing_modes(JOBS, BUILDS["rounding"]) == ["random rounding"]
    assert missing_modes([each for each in JOBS if each.geometry.draws], BUILDS["tables"]) == [
        *("loss LOGISTIC", "prox BOX", "prox L2", "staleness 1", "1 more precisions"),
    ]


def test_modes_of_the_encoder() -> None:
    double, single = Geometry.of(Precision(4), 5, 9, 9), Geometry.of(Precision(6, "nearest"), 5, 9, 9)
    encodings = [
        Encoding(double, ValueType.UINT8, False, [DrawSet(1, number) for number in range(6, 10)]),
        Encoding(double, ValueType.INT16, True, [DrawSet(1, 0)]),
        Encoding(single, ValueType.FLOAT32, True, []),
    ]
    assert missing_encoder_modes(encodings, BUILDS["encoder"]) == []
    assert missing_encoder_modes(encodings[1:], BUILDS["encoder"]) == [
        *("4 draw sets at a time", "draws without base", "values UINT8"),
    ]
    assert missing_encoder_modes(encodings[:2], BUILDS["encoder"]) == ["single sampling", "values FLOAT32"]


def test_another_file_is_an_error_of_one_line(tmp_path, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--netlist", str(tmp_path / "none.json")])
    assert ended.value.code == 2
    assert "none.json: No such file or directory" in capsys.readouterr().err
