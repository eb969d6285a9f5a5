"""`bitlane train-ddp`: its table, run folder and checkpoints, and one-line errors."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from bitlane.cli.main import main
from bitlane.compress.training import checkpoints, report
from bitlane.reporting.records import read_record

pytestmark = pytest.mark.torch

SMALL = ["train-ddp", "--workers", "2", "--network", "perceptron", "--batch-size", "3000", "--compress", "lqsgd:rank=2"]


def test_trains_reports_and_resumes(data_dir, tmp_path, drawn, capsys):
    run, folder = tmp_path / "run", tmp_path / "checkpoint"
    assert main([*SMALL, "--checkpoint", str(folder), "--every", "4", "--out", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mnist, perceptron, 2 workers, lqsgd:rank=2"
    assert lines[1].startswith("steps 1 to 10, final loss ") and "; held-out accuracy " in lines[1]
    headings = ["worker", "MB sent", "of float32", "bits", "codec s", "communication s"]
    assert lines[3].split() == " ".join(headings).split()
    record = read_record(run)
    assert record.kind == "distributed" and len(record.lines) == 2
    assert record.end["losses"][-1] < record.end["losses"][0] and record.end["accuracy"] > 0.2
    assert {path.name for path in run.iterdir()} == {"run.jsonl", "loss.png"}
    sent, ratio = lines[5].split()[1:3]
    assert float(sent) == pytest.approx(record.lines[0]["bytes_sent"] / 1e6, abs=1e-3) and float(ratio) < 0.01
    before = checkpoints.load_shared(checkpoints.latest_checkpoint(folder))
    assert before["step"] == 10

    assert main(["train-ddp", "--resume", str(folder), "--workers", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("the training was complete; ")
    assert main(["plot", str(run)]) == 0
    assert main(["train-ddp", "--resume", str(folder), "--workers", "3"]) == 2
    assert f"cannot change ranks from 2 to 3 when resuming {folder}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--compress", "zip"], "unknown compressor 'zip'"),
        (["--data", "faces"], "--data must be one of mnist, fashion_mnist, cifar10; got faces"),
        (
            ["--network", "deep"],
            "unknown network 'deep': choose one of perceptron, convolutional, wide, resnet, resnet8, or your own "
            "FILE.py:FUNCTION",
        ),
        (["--link", "fast"], "invalid link 'fast': use a bandwidth"),
        (["--resume", "/nowhere"], "no checkpoint in /nowhere"),
    ],
)
def test_bad_input_is_a_one_line_error_before_any_process_starts(options, message, capsys):
    assert main(["train-ddp", *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bitlane: error: ") and message in error and error.count("\n") == 1


def test_a_failing_worker_is_a_one_line_error(monkeypatch, tmp_path, capsys):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    monkeypatch.setenv("BITLANE_DATA", str(tmp_path))
    assert main([*SMALL, "--data", "cifar10", "--out", str(tmp_path / "run")]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("bitlane: error: rank ")
    assert "cifar-10-batches-bin has no data_batch_1.bin" in error
    assert not (tmp_path / "run").exists()


def test_the_command_line_starts_without_torch():
    code = "import sys, bitlane.cli.main as cli; cli.main(['train-ddp', '--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, timeout=60).returncode == 0


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / "all.pt").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(checkpoints.DataError, match=r"cannot read .*all\.pt \(\w+\): resume from another checkpoint"):
        checkpoints.load_shared(tmp_path)
    torch.save({"x": 1}, tmp_path / "all.pt")
    assert checkpoints.load_shared(tmp_path) == {"x": 1}


def test_progress_without_a_terminal(capsys):
    seconds = iter([0.0, 5.0, 10.0, 10.0, 19.0, 20.5, 20.5])
    show = report._print_sometimes(lambda: next(seconds))
    for done in range(1, 5):
        show(done, 4)
    assert capsys.readouterr().err.splitlines() == ["bitlane: step 2 of 4", "bitlane: step 4 of 4"]
