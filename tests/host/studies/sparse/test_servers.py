"""The study of parameter servers, with few keys."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bitlane.studies.sparse import servers as study

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
