"""Blank pictures, for tests that have pictures written and look at something else: drawing one takes half a second."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import pytest

BLANK = {
    "png": bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
        "0000000a49444154789c63f80f0001010100b138f6140000000049454e44ae426082"
    ),
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
}


@pytest.fixture
def drawn() -> None:
    """Pictures of this test are drawn."""


@pytest.fixture(autouse=True)
def blank_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let matplotlib write blank pictures, but in a test that takes the fixture `drawn`."""
    if "drawn" not in request.fixturenames and find_spec("matplotlib") is not None:
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", write_blank)


def write_blank(figure: object, path: Path | BinaryIO, *, format: str, **options: object) -> None:
    """In place of `matplotlib.figure.Figure.savefig`."""
    if isinstance(path, Path):
        path.write_bytes(BLANK[format])
    else:
        path.write(BLANK[format])
