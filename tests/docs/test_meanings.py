"""`.ci/names.py` finds a class name with two definitions and a word with many kinds of type."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

NAMES = runpy.run_path(str(ROOT / ".ci" / "names.py"))
ONE_MEANING = """
Words = NDArray[np.uint64]
class BitPlan: ...
class ReadPlan: ...
class Reader:
    plan: BitPlan
    def read(self, plan: ReadPlan | None, words: Words, path: str | Path) -> list[int]: ...
    def _scan(self, plan: int) -> None: ...
"""
KINDS = ("int", "Words", "Sequence[str]", "Mapping[str, int]", "Callable[[], int]")


def package(root: Path, **modules: str) -> Path:
    """A root whose folder `host` has these modules."""
    (root / "host").mkdir()
    for name, text in modules.items():
        (root / "host" / f"{name}.py").write_text(text)
    return root


def test_one_meaning_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert NAMES["main"](package(tmp_path, reader=ONE_MEANING)) == 0
    assert capsys.readouterr().out == ""


def test_two_classes_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert NAMES["main"](package(tmp_path, reader=ONE_MEANING, other="class BitPlan: ...")) == 1
    assert capsys.readouterr().out.splitlines()[0] == "class BitPlan: host/other.py, host/reader.py"


@pytest.mark.parametrize("count", [NAMES["MAX_KINDS"], NAMES["MAX_KINDS"] + 1])
def test_a_word_with_many_kinds(count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    functions = (f"def read_{number}(place: {kind}): ..." for number, kind in enumerate(KINDS[:count]))
    root = package(tmp_path, reader=ONE_MEANING, places="\n".join(functions))
    assert NAMES["main"](root) == int(count > NAMES["MAX_KINDS"])
    assert capsys.readouterr().out.startswith("place: 5 kinds: array (host/places.py), function" if count > 4 else "")


def test_every_exception_is_needed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    exceptions = NAMES["ALLOWED_WORDS"]
    monkeypatch.setitem(NAMES["main"].__globals__, "ALLOWED_WORDS", frozenset())
    assert NAMES["main"]() == 1
    listed = {line.partition(":")[0] for line in capsys.readouterr().out.splitlines()[:-1]}
    assert listed == exceptions
