"""Sparse models of any size: LR, FM, FFM and networks over tables by 64-bit key.

Names are imported when first used, so that `import bitlane.sparse` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bitlane.errors import BitlaneError

if TYPE_CHECKING:
    from bitlane.sparse.batches.batch import Batch
    from bitlane.sparse.batches.source import open_source
    from bitlane.sparse.estimators import (
        DeepFMClassifier,
        DNNClassifier,
        FFMClassifier,
        FMClassifier,
        FMRegressor,
        LRClassifier,
        LRRegressor,
        WideDeepClassifier,
    )
    from bitlane.sparse.generator.click_log import ClickLog, ClickLogSource
    from bitlane.sparse.generator.settings import ClickLogSettings
    from bitlane.sparse.generator.write import write_click_log
    from bitlane.sparse.models.enriched import EnrichedModel
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.models.spec import ModelSpec
    from bitlane.sparse.parameters.dense import Matrix
    from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
    from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings
    from bitlane.sparse.tables.table import Table
    from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer

__all__ = [
    "FTRL",
    "SGD",
    "AdaGrad",
    "Batch",
    "ClickLog",
    "ClickLogSettings",
    "ClickLogSource",
    "DNNClassifier",
    "DeepFMClassifier",
    "EnrichedModel",
    "FFMClassifier",
    "FMClassifier",
    "FMRegressor",
    "LRClassifier",
    "LRRegressor",
    "Matrix",
    "ModelSpec",
    "SparseModel",
    "SparseTrainingOptions",
    "Statistics",
    "StatisticsSettings",
    "Table",
    "Trainer",
    "WideDeepClassifier",
    "open_source",
    "write_click_log",
]

_HOMES = {
    "AdaGrad": "parameters.optimizers",
    "Batch": "batches.batch",
    "ClickLog": "generator.click_log",
    "ClickLogSettings": "generator.settings",
    "ClickLogSource": "generator.click_log",
    "DNNClassifier": "estimators",
    "DeepFMClassifier": "estimators",
    "EnrichedModel": "models.enriched",
    "FFMClassifier": "estimators",
    "FMClassifier": "estimators",
    "FMRegressor": "estimators",
    "FTRL": "parameters.optimizers",
    "LRClassifier": "estimators",
    "LRRegressor": "estimators",
    "Matrix": "parameters.dense",
    "ModelSpec": "models.spec",
    "SGD": "parameters.optimizers",
    "SparseModel": "models.model",
    "SparseTrainingOptions": "training.loop",
    "Statistics": "parameters.statistics",
    "StatisticsSettings": "parameters.statistics",
    "Table": "tables.table",
    "Trainer": "training.loop",
    "WideDeepClassifier": "estimators",
    "open_source": "batches.source",
    "write_click_log": "generator.write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library == "bitlane":
            raise
        raise BitlaneError(f"{__name__}.{name} needs {library}: pip install 'bitlane[sparse]'") from error


def __dir__() -> list[str]:
    return sorted(__all__)
