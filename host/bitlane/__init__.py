"""Low-precision SGD of linear models on an FPGA datapath, or on its bit-exact models.

Names are imported when first used, so that `import bitlane` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bitlane.data.encoded_arrays import encode_table
    from bitlane.encoded.table import EncodedTable
    from bitlane.errors import BitlaneError, DataError, DeviceError
    from bitlane.estimators.linear import LinearClassifier, LinearRegressor
    from bitlane.estimators.linear_cv import LinearClassifierCV, LinearRegressorCV
    from bitlane.estimators.saved import load
    from bitlane.estimators.sgd import SGDClassifier, SGDRegressor
    from bitlane.levels import optimal_levels

    __version__: str

__all__ = [
    "BitlaneError",
    "DataError",
    "DeviceError",
    "EncodedTable",
    "LinearClassifier",
    "LinearClassifierCV",
    "LinearRegressor",
    "LinearRegressorCV",
    "SGDClassifier",
    "SGDRegressor",
    "__version__",
    "encode_table",
    "load",
    "optimal_levels",
]

_HOMES = {
    "BitlaneError": "bitlane.errors",
    "DataError": "bitlane.errors",
    "DeviceError": "bitlane.errors",
    "EncodedTable": "bitlane.encoded.table",
    "LinearClassifier": "bitlane.estimators.linear",
    "LinearClassifierCV": "bitlane.estimators.linear_cv",
    "LinearRegressor": "bitlane.estimators.linear",
    "LinearRegressorCV": "bitlane.estimators.linear_cv",
    "SGDClassifier": "bitlane.estimators.sgd",
    "SGDRegressor": "bitlane.estimators.sgd",
    "encode_table": "bitlane.data.encoded_arrays",
    "load": "bitlane.estimators.saved",
    "optimal_levels": "bitlane.levels",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("bitlane.support.version").version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
