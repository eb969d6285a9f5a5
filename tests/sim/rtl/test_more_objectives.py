"""The RTL refuses objectives that only devices in software have, in one line, and before it is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitlane import DataError, SGDRegressor
from bitlane.contract.further import SoftwareConfig
from bitlane_sim.rtl import build as module
from bitlane_sim.rtl.device import RtlDevice

MESSAGE = "the RTL has neither the further losses nor elastic net: use device='cpu'"


@pytest.fixture(autouse=True)
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be built."""

    def built(*_: Any) -> None:
        raise AssertionError("it was built")

    monkeypatch.setattr(module, "cached", built)


@pytest.mark.parametrize("parameters", [{"loss": "huber"}, {"penalty": "elasticnet", "alpha": 0.01}])
def test_a_training_is_refused(parameters: dict[str, Any]) -> None:
    X = np.arange(20.0).reshape(10, 2)
    with pytest.raises(DataError) as caught:
        SGDRegressor(device="rtl", **parameters).fit(X, X[:, 0])
    assert str(caught.value) == MESSAGE


def test_a_build_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        RtlDevice(SoftwareConfig())
    assert str(caught.value) == MESSAGE
