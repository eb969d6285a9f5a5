"""What commands print fits a terminal of 80 columns, and every help names the defaults of its options."""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.cli.parser import make_parser
from bitlane.cli.summaries import SUMMARIES
from bitlane.support.text import LINE, align_columns, stacked_columns

for module in ("pandas", "sklearn", "matplotlib"):
    pytest.importorskip(module)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in dict.fromkeys(action.choices.values()):
                yield from parsers(below)


def test_every_help_fits_and_names_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = [*parsers(make_parser())]
    assert len(found) >= 1 + len(SUMMARIES) + 15
    for parser in found:
        assert max(map(len, parser.format_help().splitlines())) <= 80, parser.prog
        for action in parser._actions:
            if action.option_strings and action.nargs != 0 and not action.required:
                text = action.help or ""
                assert text == argparse.SUPPRESS or "default" in text, (parser.prog, action.option_strings)


UNITS = {  # what a help speaks of, and the units that it, the option or its placeholder then has
    r"time of the|time for|computing time|log time|deadline|latency": r"seconds?|ms|quantile",
    r"clock": r"MHz",
    r"sizes?|memory|bandwidth": r"bytes|[KMG]iB|Mb/s|Gb/s|levels|rows",
}


def test_helps_of_quantities_name_their_units() -> None:
    spoken = set()
    for parser in parsers(make_parser()):
        for action in parser._actions:
            if not action.option_strings or action.nargs == 0 or action.choices or action.type in (None, str, Path):
                continue
            places = f"{' '.join(action.option_strings)} {action.metavar} {action.help}".lower().replace("-", " ")
            for quantity, units in UNITS.items():
                if re.search(rf"\b({quantity})\b", action.help or ""):
                    spoken.add(quantity)
                    assert re.search(rf"\b({units.lower()})\b", places), (parser.prog, places)
    assert len(spoken) == len(UNITS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["devices"],
        ["datasets"],
        ["levels", "t.csv", "--target", "price"],
        *(
            ["compare", "t.csv", "--target", "price", "--device", "emulator", "--epochs", "2", *more]
            for more in ([], ["--staleness", "0,1"], ["--task", "classification"])
        ),
    ],
    ids=" ".join,
)
def test_tables_fit(arguments: list[str], prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = prices.read_text().splitlines()
    if "classification" in arguments:
        lines[1:] = [f"{line.rpartition(',')[0]},{k % 2}" for k, line in enumerate(lines[1:])]
    Path("t.csv").write_text("\n".join(lines))
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= LINE, out


def test_wide_tables_are_stacked(seed: int) -> None:
    rng = random.Random(seed)
    cells = [["x" * rng.randint(1, 20) for _ in range(rng.randint(1, 1) * 12)] for _ in range(3)]
    text = stacked_columns(cells)
    assert max(map(len, text.splitlines())) <= LINE
    tables = [table.splitlines() for table in text.split("\n\n")]
    assert all(table[0].split()[0] == cells[0][0] for table in tables)
    assert [cell for table in tables for cell in table[2].split()[1:]] == cells[1][1:]
    narrow = [row[:2] for row in cells]
    assert stacked_columns(narrow) == align_columns(narrow)


def test_a_long_last_column_goes_on_below() -> None:
    text = align_columns([["device", "reason"], ["rtl", "a word " * 30]], left=2, wrap=True).splitlines()
    assert max(map(len, text)) <= LINE and len(text) == 5
    assert " ".join(line[8:] for line in text[2:]).split() == ["a", "word"] * 30
