"""Other people's files, or the reason why they are not here."""

from __future__ import annotations

import pytest

from bitlane.errors import DataError
from bitlane_verify.foreign.sources import VERILOG_AXI, WB2AXIP, ForeignSources


def require(sources: ForeignSources) -> None:
    """Skip the tests if the files are neither here nor in reach. A file that is not the expected one is an error."""
    try:
        sources.text()
    except DataError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def wb2axip() -> None:
    require(WB2AXIP)


@pytest.fixture(scope="session")
def verilog_axi() -> None:
    require(VERILOG_AXI)
