"""Gradient compression for distributed training: codecs on numpy arrays, and compressors for `torch.distributed`.

The compressors need torch (the `torch` extra); `linear`, `sign`, `wire` and the other codecs, and the bit
policies, need numpy alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..extras import extra

_WHERE = {
    "Adaptive": "policies.adaptive",
    "DDPCompression": "ddp.hook",
    "DGC": "compressors.dgc",
    "EFSign": "compressors.dense",
    "FixedBits": "policy",
    "LQSGD": "compressors.lowrank",
    "MiCRO": "compressors.micro",
    "MQGrad": "policies.mqgrad",
    "PowerSGD": "compressors.lowrank",
    "QSGD": "compressors.dense",
    "TernGrad": "compressors.dense",
    "TopK": "compressors.topk",
}
_NUMPY_ALONE = ("policy", "policies.adaptive", "policies.mqgrad")
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _WHERE[name] not in _NUMPY_ALONE:
        extra("torch", "gradient compression", "'bitlane[torch]'")
    return getattr(import_module(f".{_WHERE[name]}", __name__), name)
