"""Compressors by name, for `attach`, the command line and the studies."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import fields
from typing import Any

from bitlane.errors import DataError

from . import DGC, LQSGD, QSGD, Adaptive, Auto, BitAllocation, EFSign, MiCRO, MQGrad, PowerSGD, TernGrad, TopK
from .compressor import Compressor
from .compressors.uncompressed import Uncompressed

_NAMES: dict[str, Any] = {
    "none": Uncompressed,
    "auto": Auto,
    "qsgd": QSGD,
    "terngrad": TernGrad,
    "efsign": EFSign,
    "topk": TopK,
    "dgc": DGC,
    "micro": MiCRO,
    "powersgd": PowerSGD,
    "lqsgd": LQSGD,
}
_POLICIES: dict[str, Any] = {"mqgrad": MQGrad, "adaptive": Adaptive, "allocation": BitAllocation}
EXAMPLES = (
    *("none", "qsgd:bits=8", "qsgd:bits=4,error_feedback=True", "qsgd:bits=2,error_feedback=True", "qsgd:bits=mqgrad"),
    *("terngrad", "efsign", "topk:density=0.05", "dgc:density=0.05", "micro:density=0.05", "powersgd:rank=8"),
    *("lqsgd:rank=32", "topk:density=0.05,value_bits=2,chunked=True,decay=0.95", "micro:density=0.05,value_bits=4"),
)  # every compressor but `auto`, which chooses its volume; with the bit widths whose volume is guaranteed


def parse_compressor(text: str) -> Compressor:
    """Return the compressor with a name and settings.

    Parameters
    ----------
    text : str
        A name, optionally with settings: `auto`, `lqsgd:rank=2,bits=4`, `qsgd:bits=mqgrad` (a bit policy).

    Raises
    ------
    DataError
        If the name or a setting is unknown, or if the compressor rejects a value.

    Examples
    --------
    >>> from bitlane.compress.registry import parse_compressor
    >>> parse_compressor("qsgd:bits=4,error_feedback=True").bits
    4
    """
    name, _, settings = text.partition(":")
    if name not in _NAMES:
        raise DataError(f"unknown compressor {name!r}: choose one of {', '.join(_NAMES)}")
    made: Compressor = _NAMES[name](**dict(_setting(name, each) for each in settings.split(",") if settings))
    return made


def _setting(name: str, text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    known = {each.name: each.default for each in fields(_NAMES[name]) if each.init}
    if not equals or key not in known:
        names = f"give name=value for {', '.join(known)}" if known else f"{name} has no settings"
        raise DataError(f"invalid setting {text!r} of {name}: {names}")
    if value in _POLICIES:
        return key, _POLICIES[value]()
    if isinstance(known[key], str):
        return key, value
    try:
        return key, literal_eval(value)
    except (ValueError, SyntaxError):
        others = ", ".join(_POLICIES) if key == "bits" else "True or False"
        raise DataError(f"invalid value {value!r} of {name}:{key}: use a number, {others}") from None
