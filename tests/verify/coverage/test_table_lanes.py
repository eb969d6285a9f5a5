"""The coverpoints of table lanes: registers fill the bins of their base bits, chunks and room."""

from __future__ import annotations

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane_verify.coverage.covergroup import Covergroup
from bitlane_verify.coverage.table_lanes import declare, sample_registers

CONFIG = AcceleratorConfig(max_features=512, row_buffer_beats=512, level_slots=128)


@pytest.mark.parametrize(
    ("bits", "features", "chunks", "room"),
    [(1, 32, "one", "partial"), (3, 65, "odd", "partial"), (2, 481, "even", "full"), (3, 256, "even", "full")],
)
def test_registers(bits: int, features: int, chunks: str, room: str) -> None:
    group = Covergroup()
    declare(group, CONFIG)
    empty = set(group.missed())
    registers = {"base_digits": bits, "features": features, "staleness": 1, "level_slots": 128}
    sample_registers(group, registers, CONFIG, "partial")
    assert empty - set(group.missed()) == {
        f"base bits: {bits}",
        f"base bits, chunks: {bits} x {chunks}",
        f"base bits, last batch: {bits} x partial",
        f"base bits, staleness: {bits} x stale",
        f"base bits, room for levels: {bits} x {room}",
    }


def test_room_that_no_model_fills_is_no_bin() -> None:
    """Levels of 1 bit for 512 features take half of the room."""
    group = Covergroup()
    declare(group, CONFIG)
    rooms = {name for name in group.missed() if "room" in name}
    assert "base bits, room for levels: 2 x full" in rooms
    assert "base bits, room for levels: 1 x full" not in rooms
