"""The script that plays newcomers types what the README says."""

from __future__ import annotations

import runpy

import pytest
from tests.helpers.places import ROOT

newcomer = runpy.run_path(str(ROOT / ".ci" / "newcomer.py"))


def test_it_finds_what_the_readme_says() -> None:
    (snippet,) = newcomer["blocks"]("python")
    assert "SGDRegressor(bits=4," in snippet  # what the path `hardware` changes
    (commands,) = [block for block in newcomer["blocks"]("sh") if "sparse train" in block]
    assert "promote models/ctr" in commands


@pytest.mark.parametrize("path", newcomer["PATHS"])
def test_the_readme_installs_the_same_extras(path: str) -> None:
    extra = newcomer["PATHS"][path][0]
    installed = f"pip install '.{extra}'" if extra else "pip install ."
    assert installed in (ROOT / "README.md").read_text()


def test_an_unknown_path_ends_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        newcomer["main"](["moon"])
    assert raised.value.code == 2
    assert "no path moon: choose from laptop, hardware, service" in capsys.readouterr().err
