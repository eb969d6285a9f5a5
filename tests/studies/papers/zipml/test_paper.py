"""The claims of ZipML, and the requirements of their measurement."""

import pytest

from bitlane.errors import DataError
from bitlane_studies.papers.zipml import paper


def test_eight_claims_of_the_paper():
    names = [measure.__module__.rpartition(".")[2] for measure in paper.PAPER.measures]
    assert names == [
        *("convergence", "end_to_end", "fewest", "batches", "speed", "variance", "network", "tomography"),
    ]


@pytest.mark.parametrize("missing", ["load_dataset", "load_cifar10"])
def test_a_missing_data_set_is_reported(monkeypatch, missing):
    def fail(*_: str) -> None:
        raise DataError("none of it")

    for name in ("load_dataset", "load_cifar10"):
        monkeypatch.setattr(paper, name, lambda *_: None)
    paper.PAPER.check_needs()
    monkeypatch.setattr(paper, missing, fail)
    with pytest.raises(DataError, match="none of it"):
        paper.PAPER.check_needs()
