"""The study of parameter servers, with few keys."""

from __future__ import annotations

import re
from contextlib import contextmanager

import numpy as np
import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.sparse import other_transports
from bitlane_studies.sparse import servers as study

pytest.importorskip("pyarrow.flight")


def test_the_command_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    study.main(["--keys", "2000", "--batch", "500", "--values", "2", "--rounds", "10"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("500 of 2,000 keys, 2 float32 each")
    names = [re.split(r"  +", line)[0] for line in lines[2:]]
    assert names == [
        "numpy gather",
        "pull, local",
        "pull",
        "push, local",
        "push, logged",
        "push, logged and on the disk",
    ]
    assert all(0 < float(line.split()[-2]) <= float(line.split()[-1]) for line in lines[2:])


@contextmanager
def _pull_of(values, keys):
    yield other_transports.filled_parameters(values, keys).pull


@contextmanager
def _missing(values, keys):
    raise BitlaneError("the row needs a library")
    yield


@contextmanager
def _zeros(values, keys):
    yield lambda keys: np.zeros((len(keys), values), np.float32)


def test_other_transports_have_rows_or_say_what_they_need(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(other_transports, "TRANSPORTS", {"pull, one": _pull_of, "pull, two": _missing})
    study.main(["--keys", "2000", "--batch", "500", "--rounds", "5", "--others"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pull, two: the row needs a library"
    assert [line.split("  ")[0] for line in lines[4:7]] == ["pull, local", "pull", "pull, one"]


def test_other_weights_are_an_error(monkeypatch) -> None:
    monkeypatch.setattr(other_transports, "TRANSPORTS", {"pull, one": _zeros})
    with pytest.raises(BitlaneError, match="pull, one: its weights are not those of local parameters"):
        study.main(["--keys", "2000", "--batch", "500", "--rounds", "5", "--others"])


def test_rounds_to_warm_up_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    found = study.measure({"a": calls.append, "b": lambda i: None}, 20)
    assert len(calls) == 20 + study.WARM_UP and set(calls) == set(range(study.BATCHES))
    assert {name: times.shape for name, times in found.items()} == {"a": (20,), "b": (20,)}
    assert all((times >= 0).all() for times in found.values()) and np.isfinite(found["a"]).all()


def test_bad_sizes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        study.main(["--keys", "10", "--batch", "20"])
    assert error.value.code == 2 and "--batch must be 1 to --keys" in capsys.readouterr().err
