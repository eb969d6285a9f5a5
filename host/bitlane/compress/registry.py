"""Compressors by name, as the command line and studies of all of them have them."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import fields
from typing import Any

from bitlane.errors import DataError

from . import DGC, LQSGD, QSGD, Adaptive, EFSign, MiCRO, MQGrad, PowerSGD, TernGrad, TopK
from .compressor import Compressor
from .compressors.uncompressed import Uncompressed

_NAMES: dict[str, Any] = {
    "none": Uncompressed,
    "qsgd": QSGD,
    "terngrad": TernGrad,
    "efsign": EFSign,
    "topk": TopK,
    "dgc": DGC,
    "micro": MiCRO,
    "powersgd": PowerSGD,
    "lqsgd": LQSGD,
}
_POLICIES: dict[str, Any] = {"mqgrad": MQGrad, "adaptive": Adaptive}
EXAMPLES = (
    *("none", "qsgd:bits=8", "qsgd:bits=4,error_feedback=True", "qsgd:bits=2,error_feedback=True", "qsgd:bits=mqgrad"),
    *("terngrad", "efsign", "topk:density=0.05", "dgc:density=0.05", "micro:density=0.05", "powersgd:rank=8"),
    "lqsgd:rank=32",
)  # every compressor, and those widths whose volume is promised


def parse_compressor(text: str) -> Compressor:
    """The compressor that `text` names: `lqsgd`, or with settings `lqsgd:rank=2,bits=4`; a policy as `bits=mqgrad`.

    Raises DataError for a name or a setting that there is not, and as the compressor does for a bad value.
    """
    name, _, settings = text.partition(":")
    if name not in _NAMES:
        raise DataError(f"no compressor named {name!r}: choose one of {', '.join(_NAMES)}")
    made: Compressor = _NAMES[name](**dict(_setting(name, each) for each in settings.split(",") if settings))
    return made


def _setting(name: str, text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    known = {each.name: each.default for each in fields(_NAMES[name]) if each.init}
    if not equals or key not in known:
        raise DataError(f"{name}:{text}: settings of {name} are {', '.join(known) or 'none'}, each as name=value")
    if value in _POLICIES:
        return key, _POLICIES[value]()
    if isinstance(known[key], str):
        return key, value
    try:
        return key, literal_eval(value)
    except (ValueError, SyntaxError):
        raise DataError(f"{name}:{text}: {value!r} is no number, True or False") from None
