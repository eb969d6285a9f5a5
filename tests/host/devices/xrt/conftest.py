"""A fake XRT in the place of the installed one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.compilers import has_compiler
from tests.helpers.fake_xrt.cards import Fake, build

from bitlane.contract.config import AcceleratorConfig


@pytest.fixture(scope="session")
def xrt_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not has_compiler():
        pytest.skip("this machine has no compiler")
    return build(tmp_path_factory.mktemp("xrt"))


@pytest.fixture
def fake(xrt_folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> Callable[..., Fake]:
    """A function that makes a card with a build; ports have the memories 0, 2, 4, ..."""
    monkeypatch.setenv("XILINX_XRT", str(xrt_folder))
    library = ctypes.CDLL(str(xrt_folder / "lib" / "libxrt_coreutil.so"))

    def make(config: AcceleratorConfig, banks: tuple[int, ...] = (), **options: int) -> Fake:
        banks = banks or tuple(range(0, 2 * config.ports, 2))
        made = Fake(config, banks, np.random.default_rng(seed), **options)
        made.connect(library)
        return made

    return make
