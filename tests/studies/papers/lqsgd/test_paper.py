"""The claims of LQ-SGD, and the requirements of their measurement."""

import sys

import pytest

from bitlane.errors import BitlaneError, DataError
from bitlane_studies.papers.lqsgd import paper

pytestmark = pytest.mark.torch


def test_three_claims_of_the_paper():
    names = [measure.__module__.rpartition(".")[2] for measure in paper.PAPER.measures]
    assert names == ["tables", "overhead", "privacy"]


def test_missing_images_are_reported(monkeypatch):
    def fail(_: str) -> None:
        raise DataError("no images")

    monkeypatch.setattr(paper, "load_images", fail)
    with pytest.raises(DataError, match="no images"):
        paper.PAPER.check_needs()


def test_a_missing_scikit_image_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.metrics", None)
    with pytest.raises(BitlaneError, match="scikit-image"):
        paper.PAPER.check_needs()
