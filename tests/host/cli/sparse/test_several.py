"""Columns of several values: from the command line to an evaluation, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.cli.main import main
from bitlane.sparse.batches.schema import read_schema
from bitlane.sparse.training.log import read_log

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

Fails = Callable[..., str]


@pytest.fixture
def tags(here: Path) -> Path:
    """Rows whose label is whether they have the tag "hot", as text with semicolons."""
    rows = [(row % 3 == 0, ["hot"] * (row % 3 == 0) + [f"t{row % 5}", f"t{row % 7}"]) for row in range(300)]
    path = here / "tags.csv"
    path.write_text(
        "label,user,tags\n" + "".join(f"{int(y)},u{n % 9},{';'.join(t)}\n" for n, (y, t) in enumerate(rows))
    )
    table = {
        "label": [int(y) for y, _ in rows],
        "user": [f"u{n % 9}" for n in range(300)],
        "tags": [t for _, t in rows],
    }
    parquet.write_table(pa.table(table), here / "tags.parquet")
    return path


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_text_and_lists_give_the_same_model(
    tags: Path, pooling: str, trains: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--model", "lr", "--several-pooling", pooling, "--several-separator", ";"]
    printed = [
        trains("tags.csv", *common, "--several", "tags", "--out", "text"),
        trains("tags.parquet", *common, "--out", "lists"),
    ]
    first, second = (
        [line for line in each.splitlines() if line.startswith(("epoch", "last window"))] for each in printed
    )
    assert first == second
    schema = read_schema(read_log("lists")[0]["data"])
    assert schema is not None and schema == read_schema(read_log("text")[0]["data"])
    assert schema.columns == ("user", "tags")
    for run, path in (("text", "tags.parquet"), ("lists", "tags.csv")):
        assert main(["sparse", "evaluate", run, path, "--allow-learned"]) == 0
        assert "1.0000" in capsys.readouterr().out  # the AUC


def test_what_is_refused(tags: Path, fails: Fails) -> None:
    train = ["sparse", "train", "tags.parquet", "--out", "run"]
    assert "cross 'user x tags' has column 'tags', which has several values" in fails(*train, "--cross", "user,tags")
    assert "tags.parquet has no column 'tag'" in fails(*train, "--several", "tag")
    assert "categorical column 'tags' is list<" in fails(*train, "--categorical", "tags")
    assert "--several-separator : use a character" in fails(*train, "--several", "tags", "--several-separator", "")
    Path("a.libsvm").write_text("1 1:1\n")
    assert "--several: " in fails("sparse", "train", "a.libsvm", "--several", "tags")
