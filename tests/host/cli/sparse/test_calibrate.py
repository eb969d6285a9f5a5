"""`bitlane sparse publish --calibrate`: what it prints and keeps, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from bitlane.cli.main import main
from bitlane.sparse.registry import publisher
from bitlane.sparse.registry.registry import ModelRegistry

REGISTRY = "models/ctr"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run `bitlane sparse`; return the exit status, and the lines of stdout, or the line of an error."""

    def run(*arguments: object) -> tuple[int, list[str]]:
        status = main(["sparse", *map(str, arguments)])
        said = capsys.readouterr()
        if status == 2:
            (line,) = said.err.splitlines()
            return status, [line.removeprefix("bitlane: error: ")]
        return status, said.out.splitlines()

    return run


@pytest.fixture
def held_out(clicks: Path, run) -> list[object]:
    """Trained on 70 % of the rows as `run`; returns the arguments of the others."""
    options = ["--model", "fm", "--test-fraction", 0.3, "--out", "run"]
    assert run("train", clicks, "--target", "click", *options)[0] == 0
    return ["--held-out", clicks, "--test-fraction", 0.3]


@pytest.mark.parametrize("kind", ["platt", "isotonic"])
def test_publishing_prints_what_the_calibrator_does(held_out, run, kind: str) -> None:
    status, lines = run("publish", "run", REGISTRY, *held_out, "--calibrate", kind)
    manifest = ModelRegistry(REGISTRY).manifest(1)
    record = manifest.description.calibrator
    assert status == 0 and record is not None and record["kind"] == kind
    assert lines[0].startswith("run has learned none of them, by the record of its files; a sample of its rows")
    assert lines[1].startswith("version 1, ")
    before, after = record["before"], record["after"]
    assert lines[2:] == [
        f"{kind}: calibration {before['calibration']:.4f} -> {after['calibration']:.4f}, log loss "
        f"{before['log_loss']:.4f} -> {after['log_loss']:.4f} on the {record['held_out_rows']:,} held-out rows it was "
        "fitted to"
    ]
    shown = json.loads("\n".join(run("versions", REGISTRY, "--json")[1]))
    assert shown["versions"][0]["calibrator"] == record
    assert run("publish", "run", REGISTRY)[0] == 0
    assert ModelRegistry(REGISTRY).manifest(2).description.calibrator == record
    loose = ["--max-miscalibration", 1, "--max-auc-loss", 1, "--max-log-loss", 1]
    assert run("validate", REGISTRY, 2, *held_out, *loose)[0] == 0
    validated = json.loads(Path(f"{REGISTRY}/validations/0000002/record.json").read_text())["metrics"]
    assert validated["log_loss"] == pytest.approx(after["log_loss"])
    assert run("publish", "run", REGISTRY, "--base")[0] == 0
    assert ModelRegistry(REGISTRY).manifest(3).description.calibrator is None


def test_few_bits_and_a_calibrator_are_one_publication(held_out, run) -> None:
    options = ["--bits", 8, "--max-loss", 0.5, "--calibrate", "platt"]
    status, lines = run("publish", "run", REGISTRY, *held_out, *options)
    assert status == 0 and [line.partition(" ")[0] for line in lines] == ["run", "version", "8", "platt:"]
    description = ModelRegistry(REGISTRY).manifest(1).description
    assert description.quantization is not None and description.calibrator is not None


def test_a_base_after_the_longest_chain_keeps_the_calibrator(held_out, run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "LONGEST_CHAIN", 1)
    assert run("publish", "run", REGISTRY, *held_out, "--calibrate", "platt")[0] == 0
    for _ in range(2):
        assert run("publish", "run", REGISTRY)[0] == 0
    first, _, base = ModelRegistry(REGISTRY).versions()
    assert base.kind == "base" and base.description.calibrator == first.description.calibrator is not None
    options = ["--model", "lr", "--test-fraction", 0.3, "--out", "other"]
    assert run("train", "clicks.csv", "--target", "click", *options)[0] == 0
    monkeypatch.setattr(publisher, "LONGEST_CHAIN", 0)
    assert run("publish", "other", REGISTRY)[0] == 0
    assert ModelRegistry(REGISTRY).manifest(4).description.calibrator is None


def test_mistakes_are_one_line(held_out, run, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = ["publish", "run", REGISTRY]
    assert run(*publish, "--calibrate", "platt") == (2, ["--calibrate needs --held-out to fit the calibrator"])
    assert run(*publish, *held_out) == (2, ["--held-out needs --bits or --calibrate"])
    learned = run(*publish, "--calibrate", "platt", *held_out[:2])
    assert learned[0] == 2 and learned[1][0].startswith("run has learned held-out rows: all rows of ")
    options = ["--loss", "squared_error", "--test-fraction", 0.3, "--out", "prices"]
    assert run("train", "clicks.csv", "--target", "price", *options)[0] == 0
    squared = "a calibrator needs a model of log_loss; this one has squared_error: publish it without --calibrate"
    assert run("publish", "prices", REGISTRY, *held_out, "--calibrate", "isotonic") == (2, [squared])
    monkeypatch.setitem(sys.modules, "sklearn", None)
    missing = "--calibrate needs scikit-learn: pip install 'bitlane[datasets]'"
    assert run(*publish, *held_out, "--calibrate", "platt") == (2, [missing])
    assert not ModelRegistry(REGISTRY).numbers()
