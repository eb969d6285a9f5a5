"""The fields of an exported core, and the values that they refuse."""

from __future__ import annotations

import gc
import re
import warnings
from typing import Any

import pytest
from amaranth.hdl import UnusedElaboratable

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS
from bitlane.errors import DataError
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.build_digest import CORE, TWO_PORTS, build_digest
from bitlane_hw.export.core import WORDS, Core
from bitlane_hw.zynq.two_ports import TwoPortAccelerator

WIDE = AcceleratorConfig(256)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"top": "2nd"}, "top='2nd' is no name of a module: use letters, digits and _, no digit first"),
        ({"top": "my.core"}, "top='my.core' is no name of a module"),
        ({"memory_ports": 3}, "memory_ports=3 must be 1 or 2"),
        ({"memory_ports": 2}, "memory_ports=2: width=64 must be 256 for two ports of 128 bits"),
        ({"kernel": True}, "address_bits=64, not memory_ports=1 and address_bits=40"),
        (
            {"kernel": True, "memory_ports": 2, "config": AcceleratorConfig(256, address_bits=64)},
            "a kernel has memory_ports=1",
        ),
    ],
)
def test_what_no_core_has_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        Core(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("count", "kind", "memory"), [(1, Accelerator, ("m_axi",)), (2, TwoPortAccelerator, ("m_axi0", "m_axi1"))]
)
def test_the_ports_choose_the_top(count: int, kind: type, memory: tuple[str, ...]) -> None:
    core = Core(WIDE, memory_ports=count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        assert type(core.component()) is kind
        gc.collect()
    assert core.memory == memory
    assert core.build == build_digest(WIDE, CORE if count == 1 else TWO_PORTS)


def test_the_ports_of_a_build_are_those_of_the_core() -> None:
    core = Core(AcceleratorConfig(256, ports=4))
    assert core.memory == ("m_axi0", "m_axi1", "m_axi2", "m_axi3")
    with pytest.raises(DataError, match="memory_ports=2: ports=4 must be 1: both ports reach one memory"):
        Core(AcceleratorConfig(256, ports=4), memory_ports=2)


def test_words_follow_each_other_without_overlap() -> None:
    offsets = [word.offset for word in WORDS]
    assert len(set(offsets)) == len(offsets) and all(offset % 4 == 0 for offset in offsets)
    assert sum(word.bits for word in WORDS) == sum(register.bits for register in REGISTERS.values())
