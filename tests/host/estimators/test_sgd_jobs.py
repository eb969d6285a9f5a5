"""Trainings of every mode give the bits that they gave when the golden file was written."""

from __future__ import annotations

import json

import pytest
from tests.helpers.places import GOLDEN
from tests.helpers.sgd_jobs import jobs, train

EXPECTED = json.loads((GOLDEN / "sgd_jobs.json").read_text())


def test_there_are_forty() -> None:
    assert [name for name, *_ in jobs()] == list(EXPECTED) and len(EXPECTED) == 40


@pytest.mark.parametrize(("name", "parameters", "build", "task"), list(jobs()), ids=lambda value: str(value)[:20])
def test_the_bits_are_those_of_before(name, parameters, build, task) -> None:
    assert train(parameters, build, task) == EXPECTED[name]


def test_machine_code_gives_the_same_bits() -> None:
    for name, parameters, build, task in jobs():
        assert train(parameters, build, task, "cpu") == EXPECTED[name], name
