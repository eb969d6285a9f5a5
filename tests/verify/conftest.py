"""Fixtures of these tests."""

import pytest
from tests.helpers.mischief import mischief

from bitlane.errors import DeviceError
from bitlane_verify.formal.runner import ProofTools, find_tools

__all__ = ["mischief"]


@pytest.fixture(scope="session")
def tools() -> ProofTools:
    try:
        return find_tools()
    except DeviceError as error:
        pytest.skip(str(error))
