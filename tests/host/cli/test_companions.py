"""No option is accepted that changes nothing: trainings with and without it differ, or it is refused in one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.cli import train
from bitlane.cli.main import main
from bitlane.reporting.records import Record, plain

for module in ("pandas", "sklearn", "matplotlib"):
    pytest.importorskip(module)

# Options of a training, each with values that are not the default.
OPTIONS = {
    "--bits": ["2", "8", "32"],
    "--sampling": ["nearest", "naive", "full"],
    "--levels": ["optimal"],
    "--draws": ["2", "once"],
    "--epochs": ["1", "12"],
    "--batch-size": ["4"],
    "--learning-rate": ["0.3"],
    "--decay": ["0.6"],
    "--penalty": ["l1", "l2", "elasticnet"],
    "--l1-ratio": ["0.5"],
    "--alpha": ["0.05"],
    "--bounds": ["-0.01,none"],
    "--staleness": ["1"],
    "--model-bits": ["6"],
    "--gradient-bits": ["4"],
    "--loss": ["hinge", "squared_hinge"],
    "--class-weight": ["balanced"],
    "--average-every": ["2"],
    "--test-fraction": ["0.2"],
    "--outputs": ["2"],
    "--width": ["128"],
    "--seed": ["5"],
    "--device": ["emulator,emulator"],
}


@pytest.fixture
def trained(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Train with options; return what was measured and learned, or the error."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 3))
    np.savez("t.npz", X=X, y=np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=40) > 0.8, 1.0, 0.0))
    records: list[Record] = []
    monkeypatch.setattr(train, "report", lambda summary, record, *_: records.append(record))

    def training(options: dict[str, str]) -> Any:
        records.clear()
        usual = {"--device": "emulator", "--epochs": "10"}  # more than the default's 8 sets of draws
        given = [f"{name}={value}" for name, value in {**usual, **options}.items()]
        status = main(["train", "t.npz", *given])
        error = capsys.readouterr().err
        if status:
            assert status == 2 and error.splitlines()[-1].startswith("bitlane: error: ")
            return error
        record = records[0]
        end = {name: value for name, value in record.end.items() if name != "seconds"}
        learned = [record.arrays["coef"].tolist(), record.arrays["intercept"].tolist()]
        return plain([learned, record.lines, end, record.header["geometry"], record.header["data"]["rows"]])

    return training


def test_every_accepted_option_has_an_effect(trained: Callable[..., Any], seed: int) -> None:
    rng = random.Random(seed)
    accepted: set[str] = set()
    for _ in range(30):
        options = {name: rng.choice(OPTIONS[name]) for name in rng.sample([*OPTIONS], rng.randint(1, 4))}
        result = trained(options)
        if isinstance(result, str):
            continue
        accepted |= set(options)
        for name in options:
            if name == "--sampling" and options.get("--bits") == "32":
                continue  # 32 bits hold these values so closely that all samplings store the same
            without = trained({other: value for other, value in options.items() if other != name})
            assert without != result, (name, options)
    assert len(accepted) > 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"--penalty": "l2"}, "--penalty needs --alpha, the strength of the penalty"),
        ({"--penalty": "l2", "--alpha": "0"}, "--penalty needs --alpha, the strength of the penalty"),
        ({"--alpha": "0.1"}, "--alpha needs --penalty l1, l2 or elasticnet"),
        ({"--penalty": "elasticnet"}, "--penalty needs --alpha, the strength of the penalty"),
        ({"--penalty": "l2", "--alpha": "1", "--l1-ratio": "0.5"}, "--l1-ratio needs --penalty elasticnet"),
        ({"--epsilon": "0.2"}, "--epsilon needs --loss huber or epsilon_insensitive or squared_epsilon_insensitive"),
        ({"--epsilon": "0.2", "--loss": "squared_hinge"}, "--epsilon needs --loss huber or"),
        ({"--draws": "4", "--sampling": "nearest"}, "--draws needs double sampling"),
        ({"--draws": "4", "--bits": "32"}, "--draws needs double sampling"),
        ({"--average-every": "2"}, "--average-every needs several devices, as in --device cpu,cpu"),
        ({"--on-device-failure": "continue"}, "--on-device-failure needs several devices, as in --device cpu,cpu"),
        ({"--draws": "2", "--epochs": "1"}, "--draws needs several epochs (--epochs)"),
        ({"--decay": "0.9", "--epochs": "1"}, "--decay needs several epochs (--epochs)"),
        ({"--width": "128", "--device": "pynq"}, "--width needs a device that is simulated here"),
        ({"--outputs": "2", "--device": "pynq://board"}, "--outputs needs a device that is simulated here"),
    ],
)
def test_what_an_option_needs(trained: Callable[..., Any], options: dict[str, str], message: str) -> None:
    assert trained(options).startswith(f"bitlane: error: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compare t.npz --draws 4 --sampling nearest", "--draws needs double sampling"),
        ("compare t.npz --width 128 --device pynq", "--width needs a device that is simulated here"),
        ("selftest --random-rounding --device pynq", "--random-rounding needs a device that is simulated here"),
        ("train-ddp --every 5", "--every needs --checkpoint or --resume"),
        ("sparse train t.npz --checkpoint-rows 9", "--checkpoint-rows needs --out"),
        ("sparse train t.npz --device cuda", "--device needs a network (--model dnn, widedeep or deepfm)"),
        ("sparse train t.npz --half-life 9", "--half-life needs --statistics"),
        ("sparse train t.npz --publish-every 9", "--publish-every needs --publish"),
        ("sparse train --resume run --publish-every 9", "--publish-every needs --publish"),
        ("sparse train t.npz --workers 3", "--workers needs --engine ray"),
        ("sparse train t.npz --engine ray --cache-rows 9", "--cache-rows needs --staleness above 0"),
        ("sparse train t.npz --engine ray --push-bits 2", "--push-bits needs --push few or topk"),
        ("sparse publish run reg --levels optimal", "--levels needs --bits"),
        ("sparse publish run reg --bits 4", "--bits needs --held-out to measure the loss"),
        ("sparse promote reg 1 --max-auc-loss 1", "--max-auc-loss needs --held-out"),
        ("sparse validate reg 1 --held-out t.npz --max-slowdown 5", "--max-slowdown needs --requests"),
        ("sparse serve reg --hedge-share 0.5 --shards 2", "--hedge-share needs --replicas of 2 or more"),
        ("sparse serve reg --tls-ca a.pem --shards 2", "--tls-ca needs --placement ray"),
        ("sparse serve reg --record-share 0.5", "--record-share needs --record"),
        ("sparse status . --token-file t", "--token-file needs servers given by address, not by a run folder"),
    ],
)
def test_what_options_of_other_commands_need(
    arguments: str, message: str, here: Path, fails: Callable[..., str]
) -> None:
    for module in ("numba", "pyarrow", "xxhash", "starlette", "uvicorn", "prometheus_client"):
        if arguments.startswith("sparse"):
            pytest.importorskip(module)
    np.savez("t.npz", X=np.eye(20), y=np.arange(20) % 2)
    assert message in fails(*arguments.split())
