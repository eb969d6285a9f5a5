"""Files with tokens, certificates and keys: what is wrong with one is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers.security import read_secret


def test_a_secret_is_text_without_blanks_at_its_ends(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(" s\u00e9cret\n", encoding="utf-8")
    assert read_secret(path) == "s\u00e9cret"


def test_random_bytes_are_no_secret(tmp_path: Path, seed: int) -> None:
    rng, path = np.random.default_rng(seed), tmp_path / "token"
    path.write_bytes(b"token" + rng.bytes(rng.integers(0, 40)) + b"\xff")
    with pytest.raises(DataError, match=r"^[^\n]*/token is not UTF-8 text, at byte \d+: save it as UTF-8$"):
        read_secret(path)


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for make, message in ((Path.touch, "is empty"), (lambda path: None, "cannot be read: No such file")):
        path = tmp_path / "token"
        path.unlink(missing_ok=True)
        make(path)
        with pytest.raises(BitlaneError, match=message):
            read_secret(path)
