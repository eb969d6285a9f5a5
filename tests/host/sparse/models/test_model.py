"""SparseModel: learning, minibatches, threads, admission, folders."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.losses import mean_loss
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, SGD
from bitlane.sparse.parameters.unique import unique_keys

FM = ModelSpec("fm", dim=4, initial_scale=0.1)
SPECS = [ModelSpec("lr"), FM, ModelSpec("ffm", fields=4, linear=FTRL(), intercept=True)]
each_spec = pytest.mark.parametrize("spec", SPECS, ids=[spec.kind for spec in SPECS])


def with_settings(spec: ModelSpec, **settings) -> ModelSpec:
    return ModelSpec.from_json({**spec.to_json(), **settings})


def as_arrays(model: SparseModel, batch: Batch):
    keys, _ = unique_keys(batch.keys)
    return model.parameters.table.gather(keys), {name: each.row for name, each in model.matrices.items()}


def same_bits(one: SparseModel, other: SparseModel, batch: Batch) -> bool:
    (rows, dense), (others, other_dense) = as_arrays(one, batch), as_arrays(other, batch)
    return rows.tobytes() == others.tobytes() and all(
        dense[name].tobytes() == other_dense[name].tobytes() for name in dense
    )


@each_spec
def test_learning_lowers_the_loss_of_rows_it_has_not_seen(spec: ModelSpec, seed: int) -> None:
    batch = planted_rows(seed, 4000)
    model = SparseModel(spec)
    before = model.learn(batch.slice(0, 3000))
    assert mean_loss("log_loss", before[-1000:], batch.labels[2000:3000]) < np.log(2)
    held_out = batch.slice(3000, 4000)
    scores = model.scores(held_out)
    assert mean_loss("log_loss", scores, held_out.labels) < np.log(2)
    assert np.allclose(model.predict(held_out), 1 / (1 + np.exp(-scores.astype(np.float64))), rtol=1e-6)
    assert model.rows_seen == 3000


def test_squared_error_predicts_the_labels_scale(seed: int) -> None:
    batch = planted_rows(seed, 3000, loss="squared_error")
    model = SparseModel(with_settings(FM, loss="squared_error"))
    model.learn(batch)
    model.learn(batch)
    assert np.mean((model.predict(batch) - batch.labels) ** 2) < 0.9 * batch.labels.var()


@each_spec
def test_scoring_changes_nothing(spec: ModelSpec, seed: int) -> None:
    batch = planted_rows(seed, 200)
    model = SparseModel(spec)
    model.learn(batch)
    rows, dense = as_arrays(model, batch)
    rows, dense = rows.copy(), {name: each.copy() for name, each in dense.items()}
    assert np.array_equal(model.scores(batch), model.scores(batch))
    after, dense_after = as_arrays(model, batch)
    assert np.array_equal(rows, after) and all(np.array_equal(dense[name], dense_after[name]) for name in dense)
    assert model.rows_seen == 200


@each_spec
def test_the_same_rows_give_the_same_bits(spec: ModelSpec, seed: int) -> None:
    batch = planted_rows(seed, 500)
    one, other = SparseModel(with_settings(spec, seed=seed)), SparseModel(with_settings(spec, seed=seed))
    assert np.array_equal(one.learn(batch), other.learn(batch))
    assert same_bits(one, other, batch)


@each_spec
def test_a_minibatch_is_scored_before_it_is_learned(spec: ModelSpec, seed: int) -> None:
    batch = planted_rows(seed, 90)
    pieces, whole = (SparseModel(with_settings(spec, batch_rows=30)) for _ in "ab")
    scores = []
    for start in range(0, 90, 30):
        part = batch.slice(start, start + 30)
        pieces.parameters.pull(unique_keys(part.keys)[0], create=True)
        scores.append(pieces.scores(part))
        assert np.array_equal(pieces.learn(part), scores[-1])
    assert np.array_equal(whole.learn(batch), np.concatenate(scores))
    assert same_bits(whole, pieces, batch)


def test_weights_and_intercept_step_by_the_sum_over_the_rows_of_a_minibatch() -> None:
    spec = ModelSpec("lr", linear=SGD(0.5), dense=SGD(0.5), batch_rows=4, loss="squared_error")
    keys, offsets = np.array([7, 7, 7, 9], np.uint64), np.arange(5)
    labels = np.array([1, 2, 3, 4], np.float32)
    model = SparseModel(spec)
    model.learn(Batch(keys, np.zeros(4, np.uint16), np.ones(4, np.float32), offsets, labels))
    assert model.parameters.pull(np.array([7, 9], np.uint64))[:, 0].tolist() == [3.0, 2.0]
    assert model.pull_dense()["intercept"].tolist() == [5.0]


@each_spec
def test_a_bad_label_is_named_and_nothing_is_learned(spec: ModelSpec, seed: int) -> None:
    batch = planted_rows(seed, 50)
    batch.labels[20] = 0.5
    model = SparseModel(spec)
    with pytest.raises(DataError, match=r"label of row 20 must be 0 or 1; got 0\.5"):
        model.learn(batch)
    assert len(model.parameters.table) == 0 and model.rows_seen == 0


def test_arrays_that_cannot_be_written_are_learned(seed: int) -> None:
    batch = planted_rows(seed, 50)
    for each in (batch.keys, batch.fields, batch.values, batch.offsets, batch.labels):
        each.flags.writeable = False
    for rows in (1, 10):
        SparseModel(with_settings(FM, batch_rows=rows)).learn(batch)


@pytest.mark.parametrize("batch_rows", [1, 8])
def test_keys_enter_when_they_are_seen_often_enough(batch_rows: int) -> None:
    model = SparseModel(ModelSpec("lr", sightings=3, batch_rows=batch_rows))
    batch = Batch(
        np.array([1, 2, 2, 3, 3, 3], np.uint64), np.zeros(6, np.uint16), np.ones(6, np.float32),
        np.arange(7), np.ones(6, np.float32),
    )  # fmt: skip
    model.learn(batch)
    assert model.parameters.table.find(np.array([1, 2, 3], np.uint64)).tolist()[:2] == [-1, -1]
    assert len(model.parameters.table) == 1
    model.learn(batch)
    assert len(model.parameters.table) == 2


def learned_by_threads(spec: ModelSpec, batch: Batch, threads: int, epochs: int = 2) -> SparseModel:
    model = SparseModel(spec)
    parts = [batch.slice(start, start + 100) for start in range(0, batch.rows, 100)] * epochs

    def work(which: int) -> None:
        for part in parts[which::threads]:
            model.learn(part)

    workers = [threading.Thread(target=work, args=(which,)) for which in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return model


@each_spec
def test_two_threads_learn_about_as_well_as_one(spec: ModelSpec, seed: int) -> None:
    batch = planted_rows(seed, 6000, keys=400)
    train, held_out = batch.slice(0, 5000), batch.slice(5000, 6000)
    one, two = (learned_by_threads(spec, train, threads) for threads in (1, 2))
    losses = [mean_loss("log_loss", model.scores(held_out), held_out.labels) for model in (one, two)]
    assert abs(losses[0] - losses[1]) < 0.03
    assert two.rows_seen == 10_000 and len(two.parameters.table) == len(one.parameters.table)


# --- folders
def saved(model: SparseModel, folder: Path) -> Path:
    folder.mkdir()
    model.save(folder)
    return folder


def stamps_of(model: SparseModel) -> dict[int, int]:
    chunks = [(keys.tolist(), stamps.tolist()) for keys, _, stamps in model.parameters.table.items()]
    return {key: stamp for keys, stamps in chunks for key, stamp in zip(keys, stamps, strict=True)}


@each_spec
@pytest.mark.parametrize("settings", [{}, {"sightings": 2, "track_age": True}, {"batch_rows": 16}])
def test_a_loaded_model_goes_on_with_the_same_bits(spec: ModelSpec, settings: dict, seed: int, tmp_path: Path) -> None:
    batch = planted_rows(seed, 600)
    model = SparseModel(with_settings(spec, seed=seed, **settings))
    model.parameters.table.tick(5)
    model.learn(batch.slice(0, 300))
    loaded = SparseModel.load(saved(model, tmp_path / "model"))
    spec = model.spec
    assert loaded.spec == spec and loaded.rows_seen == 300
    assert loaded.parameters.table.clock == 5
    for part in (batch.slice(0, 300), batch.slice(300, 600)):
        assert np.array_equal(loaded.scores(part), model.scores(part))
        assert np.array_equal(loaded.learn(part), model.learn(part))
    assert same_bits(loaded, model, batch)
    if spec.track_age:
        assert stamps_of(loaded) == stamps_of(model)


def test_an_untrained_model_is_saved_and_loaded(tmp_path: Path) -> None:
    loaded = SparseModel.load(saved(SparseModel(FM), tmp_path / "model"))
    assert len(loaded.parameters.table) == 0 and loaded.spec == FM


def test_a_folder_lists_what_arrow_and_json_readers_need(seed: int, tmp_path: Path) -> None:
    import pyarrow

    model = SparseModel(FM)
    model.learn(planted_rows(seed, 100))
    folder = saved(model, tmp_path / "model")
    assert sorted(each.name for each in folder.iterdir()) == ["dense.npz", "model.json", "parameters.arrow"]
    with pyarrow.OSFile(str(folder / "parameters.arrow")) as file:
        table = pyarrow.ipc.open_stream(file).read_all()
    assert table.schema.names == ["key", "row"]
    assert table.schema.types == [pyarrow.uint64(), pyarrow.list_(pyarrow.float32(), 2 + 2 * 4)]
    keys = table["key"].to_numpy()
    rows = np.stack(table["row"].to_numpy(zero_copy_only=False))
    assert len(keys) == len(model.parameters.table)
    assert np.array_equal(model.parameters.table.gather(keys), rows)
    assert json.loads((folder / "model.json").read_text())["spec"] == FM.to_json()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    model = SparseModel(FM)
    model.learn(planted_rows(1, 300))
    return saved(model, tmp_path_factory.mktemp("models") / "model")


def cut(path: Path, share: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def flip(path: Path, at: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    path.write_bytes(data)


DAMAGES = {
    "no description": (lambda folder: (folder / "model.json").unlink(), "is not a model: it has no model.json"),
    "no rows": (
        lambda folder: (folder / "parameters.arrow").unlink(),
        "not a complete model: it has no parameters.arrow",
    ),
    "no matrices": (lambda folder: (folder / "dense.npz").unlink(), "not a complete model: it has no dense.npz"),
    "text": (lambda folder: (folder / "model.json").write_text("{"), r"model\.json is damaged"),
    "list": (lambda folder: (folder / "model.json").write_text("[]"), "format None; this version reads format 1"),
    "format": (lambda folder: (folder / "model.json").write_text('{"format": 99}'), "format 99"),
    "no spec": (lambda folder: (folder / "model.json").write_text('{"format": 1}'), r"model\.json is damaged"),
    "empty rows": (lambda folder: cut(folder / "parameters.arrow", 0), r"parameters\.arrow is damaged"),
    "half the rows": (lambda folder: cut(folder / "parameters.arrow", 0.5), r"damaged: it has \d+ bytes, not \d+"),
    "other rows": (
        lambda folder: flip(folder / "parameters.arrow", 0.5),
        r"arrow is damaged: its checksum is \w+, not",
    ),
    "half the matrices": (lambda folder: cut(folder / "dense.npz", 0.5), r"dense\.npz is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_line(damage: str, folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    spoil, message = DAMAGES[damage]
    spoil(copied)
    with pytest.raises(DataError, match=message) as caught:
        SparseModel.load(copied)
    assert "\n" not in str(caught.value) and str(copied) in str(caught.value)


@pytest.mark.parametrize("name", ["parameters.arrow", "dense.npz"])
def test_every_flipped_bit_is_noticed(name: str, folder: Path, tmp_path: Path, seed: int) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    data = (folder / name).read_bytes()
    for at in np.random.default_rng(seed).integers(0, 8 * len(data), 40):
        spoiled = bytearray(data)
        spoiled[at // 8] ^= 1 << (at % 8)
        (copied / name).write_bytes(spoiled)
        with pytest.raises(DataError, match=f"{name} is damaged: its checksum"):
            SparseModel.load(copied)


@pytest.mark.parametrize("change", [{"dim": 5}, {"kind": "lr"}, {"linear": {"name": "sgd"}}, {"sightings": 2}])
def test_files_of_another_model_are_refused(change: dict, folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    record = json.loads((copied / "model.json").read_text())
    record["spec"].update(change)
    (copied / "model.json").write_text(json.dumps(record))
    with pytest.raises(DataError):
        SparseModel.load(copied)


def test_a_description_is_checked(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    shutil.copytree(folder, copied)
    record = json.loads((folder / "model.json").read_text())
    for name in ("spec", "rows_seen", "files"):
        (copied / "model.json").write_text(json.dumps({key: each for key, each in record.items() if key != name}))
        with pytest.raises(DataError, match=f"model.json is damaged: .*{name}"):
            SparseModel.load(copied)
