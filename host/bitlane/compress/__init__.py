"""Gradient compression for distributed training: codecs on numpy arrays, and compressors for `torch.distributed`.

The compressors need torch (the `torch` extra). The codecs and the bit policies need only numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bitlane.support.optional import require_extra

_WHERE = {
    "Adaptive": "bitlane.policies.adaptive",
    "Auto": "bitlane.compress.auto.compressor",
    "BitAllocation": "bitlane.policies.allocation",
    "DDPCompression": "bitlane.compress.ddp.hook",
    "DGC": "bitlane.compress.compressors.dgc",
    "DiLoCo": "bitlane.compress.local.diloco",
    "Dion": "bitlane.compress.dion.optimizer",
    "DataShare": "bitlane.compress.elastic.shares",
    "EFSign": "bitlane.compress.compressors.dense",
    "ElasticDiLoCo": "bitlane.compress.elastic.diloco",
    "FSDPCompression": "bitlane.compress.fsdp.hook",
    "FixedBits": "bitlane.policies.protocol",
    "LQSGD": "bitlane.compress.compressors.lowrank",
    "MiCRO": "bitlane.compress.compressors.micro",
    "MeasuredTraining": "bitlane.compress.advice.trial",
    "LocalSGD": "bitlane.compress.local.local_sgd",
    "MQGrad": "bitlane.policies.mqgrad",
    "PowerSGD": "bitlane.compress.compressors.lowrank",
    "QSGD": "bitlane.compress.compressors.dense",
    "TernGrad": "bitlane.compress.compressors.dense",
    "TopK": "bitlane.compress.compressors.topk",
    "advice_text": "bitlane.compress.advice.report",
    "advise": "bitlane.compress.advice.advise",
    "attach": "bitlane.compress.ddp.attach",
    "attach_fsdp": "bitlane.compress.fsdp.hook",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _WHERE[name].startswith("bitlane.compress."):
        require_extra("torch", "gradient compression", "'bitlane[torch]'")
    return getattr(import_module(_WHERE[name]), name)
