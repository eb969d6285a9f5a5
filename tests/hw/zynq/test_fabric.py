"""The builds that a Zynq-7000 supports, and the HP ports that they use."""

from __future__ import annotations

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.zynq.fabric import hp_names


@pytest.mark.parametrize(("width", "names"), [(64, ("hp0",)), (128, ("hp0", "hp1"))])
def test_ports(width: int, names: tuple[str, ...]) -> None:
    assert hp_names(AcceleratorConfig(width=width, address_bits=32)) == names


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"width": 256}, "width=256 must be 64 .* or 128"), ({"address_bits": 40}, "address_bits=40 must be 32")],
)
def test_an_unsupported_build_is_refused(wrong: dict[str, int], named: str) -> None:
    config = AcceleratorConfig(**({"address_bits": 32} | wrong))
    with pytest.raises(ValueError, match=named):
        hp_names(config)
