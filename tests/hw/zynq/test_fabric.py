"""What fits a Zynq-7000, and that its adapters leave the accelerator as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import bitlane_hw.config
from bitlane_hw.config import AcceleratorConfig
from bitlane_hw.zynq.fabric import ZynqFabric, hp_names
from bitlane_hw.zynq.top import Zynq


@pytest.mark.parametrize(("width", "names"), [(64, ("hp0",)), (128, ("hp0", "hp1"))])
def test_ports(width: int, names: tuple[str, ...]) -> None:
    assert hp_names(AcceleratorConfig(width=width, address_bits=32)) == names


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")  # what is refused is not elaborated
@pytest.mark.parametrize("top", [ZynqFabric, Zynq])
@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"width": 256}, "width=256 must be 64 .* or 128"), ({"address_bits": 40}, "address_bits=40 must be 32")],
)
def test_what_does_not_fit_is_named(top: type, wrong: dict[str, int], named: str) -> None:
    config = AcceleratorConfig(**({"address_bits": 32} | wrong))
    with pytest.raises(ValueError, match=named):
        top(config)


def test_the_digest_is_the_accelerators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with and without the adapters, so that a build of the accelerator alone and this one's are one."""
    config = AcceleratorConfig()
    source = Path(bitlane_hw.config.__file__).parent
    assert list((source / "zynq").glob("*.py"))
    shutil.copytree(source, tmp_path / "hw", ignore=shutil.ignore_patterns("zynq", "__pycache__"))
    before = config.digest
    monkeypatch.setattr(bitlane_hw.config, "__file__", str(tmp_path / "hw" / "config.py"))
    assert config.digest == before
