"""Images have the right shape and scale, and no training image is held out."""

from __future__ import annotations

import pytest
from tests.helpers.cifar10 import write_public_files

from bitlane.compress.training.images import load_images
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("name", "shape", "counts"), [("mnist", (1, 28, 28), (60_000, 10_000)), ("cifar10", (3, 32, 32), (45_000, 5_000))]
)
def test_shapes_and_scale(name, shape, counts, data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("BITLANE_DATA", str(data_dir))
    if name == "cifar10":
        write_public_files(data_dir, tmp_path)
        monkeypatch.setenv("BITLANE_DATA", str(tmp_path))
    images = load_images(name)
    assert (len(images.pixels), len(images.held_out_pixels)) == counts
    assert images.pixels.shape[1:] == images.held_out_pixels.shape[1:] == shape
    assert images.pixels.mean() == pytest.approx(0, abs=1e-3) and images.pixels.std() == pytest.approx(1, abs=1e-3)
    assert images.classes.bincount().min() > 0.09 * 0.9 * counts[0] and images.classes.max() == 9


def test_an_unknown_set_is_rejected():
    with pytest.raises(DataError, match="'imagenet': choose one of mnist"):
        load_images("imagenet")
