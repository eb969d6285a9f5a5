"""Checkpoints are complete or not there: full disks, kills, damage."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_training import files_of

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.training import checkpoint
from bitlane.sparse.training.checkpoint import TrainingProgress, latest, load, save


def some_progress(rows: int = 7) -> TrainingProgress:
    return TrainingProgress(
        1, rows, 100 + rows, 2.5, 0.5, 0.25, 99, {"offset": [3, "a"]}, *np.ones((2, rows), np.float32)
    )


def model_of(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "model.json").write_text(text)


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(run: Path) -> list[str]:
    return sorted(path.name for path in run.iterdir())


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    path = save(tmp_path, some_progress(), model_of("{}"))
    found, expected = load(path), some_progress()
    for name in vars(expected).keys() - {"sample"}:  # `RunFolder` keeps it beside the model
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (found.scores.dtype, latest(tmp_path)) == (np.float32, path)


def test_the_last_checkpoint_stays_and_is_the_model(tmp_path: Path) -> None:
    for number in range(12):
        path = save(tmp_path, some_progress(number), model_of(str(number)))
    assert names(tmp_path) == ["checkpoint-0000012", "model"]
    assert latest(tmp_path) == path
    assert (tmp_path / "model/model.json").read_text() == "11"
    assert not Path(os.readlink(tmp_path / "model")).is_absolute()


def test_all_files_are_on_the_disk_before_the_name_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    force, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda file: (forced.append(os.readlink(f"/proc/self/fd/{file}")), force(file)))
    monkeypatch.setattr(os, "rename", lambda *names: (forced.append("renamed"), rename(*names)))
    save(tmp_path, some_progress(), model_of("{}"))
    part = tmp_path.resolve() / checkpoint.PART
    before, after = forced[: forced.index("renamed")], forced[forced.index("renamed") + 1 :]
    wanted = [part, part / "model", *(part / name for name in ("model/model.json", "progress.json", "window.npz"))]
    assert sorted(before) == sorted(map(str, wanted))
    assert after == [str(tmp_path.resolve())]


def test_what_a_kill_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    first = save(tmp_path, some_progress(1), model_of("1"))
    part = tmp_path / checkpoint.PART
    part.mkdir()
    (part / "model").mkdir()
    (part / "model/model.json").write_text("half")
    assert latest(tmp_path) == first
    save(tmp_path, some_progress(2), model_of("2"))
    assert names(tmp_path) == ["checkpoint-0000002", "model"]


def test_a_kill_between_rename_and_removal_leaves_the_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, some_progress(1), model_of("1"))
    monkeypatch.setattr(checkpoint.shutil, "rmtree", lambda *_, **__: None)
    second = save(tmp_path, some_progress(2), model_of("2"))
    assert latest(tmp_path) == second
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("place", ["model", "np.savez", "fsync", "rename"])
def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    save(tmp_path, some_progress(1), model_of("1"))
    before = files_of(tmp_path)
    model = no_space if place == "model" else model_of("2" * 100)
    with monkeypatch.context() as patch:
        if place == "np.savez":
            patch.setattr(checkpoint.np, "savez", no_space)
        elif place != "model":
            patch.setattr(checkpoint.os, place, no_space)
        with pytest.raises(BitlaneError) as caught:
            save(tmp_path, some_progress(2), model)
    assert str(caught.value) == (
        f"{tmp_path}/checkpoint-0000002 cannot be written: No space left on device; "
        f"the training can resume from {tmp_path}/checkpoint-0000001"
    )
    assert files_of(tmp_path) == before
    assert names(tmp_path) == ["checkpoint-0000001", "model"]
    save(tmp_path, some_progress(3), model_of("3"))  # after space was made
    assert (tmp_path / "model/model.json").read_text() == "3"


def test_the_first_checkpoint_can_fail_too(tmp_path: Path) -> None:
    with pytest.raises(BitlaneError, match="there is no earlier checkpoint"):
        save(tmp_path, some_progress(), no_space)
    assert names(tmp_path) == []


def test_a_short_write_is_an_error(tmp_path: Path) -> None:
    """numpy reports a short write without an error number: a limit on the size of files."""
    save(tmp_path, some_progress(1), model_of("1"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        with pytest.raises(BitlaneError, match=r"checkpoint-0000002 cannot be written: .*; the training can resume"):
            save(tmp_path, some_progress(2), lambda folder: np.save(folder / "a.npy", np.zeros(100_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == ["checkpoint-0000001", "model"]


SMALL_DISK = """
set -e
mount -t tmpfs -o size=256k tmpfs "$1"
exec "$2" - "$1" <<'END'
import sys
from pathlib import Path
import numpy as np
from bitlane.errors import BitlaneError
from bitlane.sparse.training.checkpoint import TrainingProgress, load, save
run = Path(sys.argv[1])
for size in (10, 100, 10_000, 20_000, 30_000):
    try:
        progress = TrainingProgress(epoch_rows=size)
        path = save(run, progress, lambda folder: np.save(folder / "a.npy", np.arange(float(size))))
    except BitlaneError as error:
        print(error)
        break
assert sorted(each.name for each in run.iterdir()) == [path.name, "model"]
found = np.load(run / "model" / "a.npy")
assert found.tolist() == list(range(load(path).epoch_rows))
END
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of 256 KiB in the memory, in namespaces of its own."""
    run = tmp_path / "disk"
    run.mkdir()
    alone = ["unshare", "--map-root-user", "--mount"]
    try:
        subprocess.run([*alone, "mount", "-t", "tmpfs", "tmpfs", str(run)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs namespaces of users and mounts")
    command = [*alone, "bash", "-c", SMALL_DISK, "bash", str(run), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cannot be written: " in done.stdout
    assert "No space left on device" in done.stdout or "requested and" in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("name", ["progress.json", "window.npz"])
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "other"])
def test_damage_is_one_clear_line(tmp_path: Path, name: str, damage: str) -> None:
    path = save(tmp_path, some_progress(), model_of("{}"))
    file = path / name
    content = file.read_bytes()
    file.unlink()
    if damage != "missing":
        file.write_bytes({"empty": b"", "short": content[: len(content) // 2], "other": b"[1, 2]"}[damage])
    with pytest.raises(DataError, match=r"checkpoint .* is damaged"):
        load(path)


def test_another_format_is_named(tmp_path: Path) -> None:
    path = save(tmp_path, some_progress(), model_of("{}"))
    file = path / "progress.json"
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(DataError, match="has format 2, this bitlane reads 1"):
        load(path)
