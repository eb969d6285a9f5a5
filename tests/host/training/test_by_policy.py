"""A policy chooses the bits of each section of an epoch: every section equals a training with these bits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST, fastest
from tests.helpers.sgd_textbook import textbooks
from tests.helpers.trainings import trained

from bitlane.compress import FixedBits, MQGrad
from bitlane.contract.draws import DrawSet, draw_words, row_words
from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import MASTER_OFFSET
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.driver.job import loss_value
from bitlane.errors import DataError
from bitlane.estimators.sgd import SGDClassifier, SGDRegressor
from bitlane.quantization.positions import position_map
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.support.rng import seed_word
from bitlane.training.by_policy import MQGRAD, SECTIONS, policy_of, sections_of
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.options import TrainingOptions
from bitlane.training.result import joined
from bitlane.training.train import first_settings


@dataclass(frozen=True)
class Listed:
    """A policy with a fixed list of bits, one for each section; its chooser records the observations."""

    bits_of_parts: tuple[int, ...]
    choices: tuple[int, ...] = (2, 4, 6, 8)

    def start(self):
        return _Chooser(self)


class _Chooser:
    seen: list = []  # noqa: RUF012 - observations of the last training

    def __init__(self, policy):
        self.policy = policy
        _Chooser.seen = []

    @property
    def bits(self):
        return self.policy.bits_of_parts[min(len(self.seen), len(self.policy.bits_of_parts) - 1)]

    def after(self, observed, share):
        assert share([1.0]) == [[1.0]]
        self.seen.append((observed.loss, observed.seconds, observed.rms()))


def table(seed, rows=300, n=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, 2, (rows, n))
    return X, X @ rng.normal(size=n) + rng.normal(0, 0.3, rows)


def at_bits(checkpoint, bits, run):
    """Return a checkpoint whose training goes on with these bits, with the ridge of a run that began with them."""
    (settings,), (first,) = checkpoint.settings, run._first.settings
    for _ in range(checkpoint.epoch):
        first = first.after_epoch()
    return replace(
        checkpoint,
        options=replace(checkpoint.options, precision=Precision(bits)),
        settings=(replace(settings, prox=first.prox, penalty_step=first.penalty_step),),
    )


@pytest.mark.parametrize("draws", ["epoch", "once", 2])
@pytest.mark.parametrize("loss", ["squared_error", "hinge"])
def test_each_epoch_equals_a_training_with_its_bits(seed, draws, loss):
    """The expected epochs are trainings at fixed precision that resume from the checkpoint of the previous epoch."""
    X, y = table(seed)
    y = y if loss == "squared_error" else np.where(y > np.median(y), 1.0, -1.0)
    bits = (4, 2, 8, 8, 6, 2)
    options = {"draws": draws, "loss": loss, "learning_rate": 0.05, "decay": 0.9, "batch_size": 8}
    device = fastest()
    estimator = SGDRegressor if loss == "squared_error" else SGDClassifier
    listed = Listed(tuple(np.repeat(bits, SECTIONS).tolist()))
    model = estimator(listed, epochs=6, device=device, shuffle=False, random_state=3, **options)
    run = model.fit(X, y, snapshots=True).run_
    checkpoint = None
    for epoch, each in enumerate(bits):
        if checkpoint is not None:
            checkpoint = at_bits(checkpoint, each, trained(X, y, precision=Precision(each), device=device, **options))
        one = trained(
            X,
            y,
            precision=Precision(each),
            device=fastest(),
            epochs=epoch + 1,
            seed=3,
            resume=checkpoint,
            **options,
        )
        checkpoint = one.checkpoint()
        np.testing.assert_array_equal(run.snapshots[epoch], one.weights)
        assert run.loss[epoch] == pytest.approx(one.loss[0], rel=1e-13)  # a mean of parts rounds otherwise
        assert np.diff(run.epoch_cycles, prepend=0)[epoch] >= one.epoch_cycles[0]
    np.testing.assert_array_equal(run.bits, bits)
    assert checkpoint.options.precision.bits == 2
    np.testing.assert_array_equal(run.checkpoint().master, checkpoint.master)


@pytest.mark.parametrize("bits", [(2, 8), (8, 2)])
def test_each_part_has_the_automatic_rate_of_its_bits(seed, bits):
    X, y = table(seed)
    run = SGDRegressor(Listed(bits), epochs=1, device=FASTEST).fit(X, y).run_
    rates = {each: suggest_learning_rate(X, 16, Precision(each)) for each in bits}
    assert rates[2] < rates[8]
    assert run.settings["learning_rate"] == rates[bits[-1]]  # a result has the options of its last part


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_bits_that_change_within_an_epoch(seed, loss):
    """Against the arithmetic of the accelerator in Python integers, fed with the codes of each section's bits."""
    rng = np.random.default_rng(seed)
    X, y = table(seed, rows=int(rng.integers(100, 200)), n=int(rng.integers(1, 40)))
    y = y if loss == "squared_error" else np.where(y > np.median(y), 1.0, -1.0)
    bits = rng.choice((2, 4, 6, 8), 2 * SECTIONS).tolist()
    options = {"epochs": 2, "learning_rate": 0.05, "decay": 0.5, "batch_size": int(rng.integers(1, 12)), "draws": 2}
    options |= {"random_state": 5, "shuffle": False, "device": FASTEST, "loss": loss, "penalty": "l1", "alpha": 0.01}
    estimator = SGDRegressor if loss == "squared_error" else SGDClassifier
    run = estimator(Listed(tuple(bits)), **options).fit(X, y).run_
    scaling = run.scaling
    asked = run.checkpoint().options
    (settings,) = first_settings(asked, scaling, [0.0])
    shape = Geometry(scaling.stored_features, len(X), 1, True, options["batch_size"])
    (book,) = textbooks(shape, settings, np.full((1, scaling.stored_features), MASTER_OFFSET, np.int32))
    labels, losses, chosen = scaling.labels(y[:, None])[:, 0], [], iter(bits)
    for epoch in range(2):
        losses.append(0)
        sections = sections_of(len(X), asked)
        for part in sections:
            precision, rows = Precision(next(chosen)), slice(part.start, part.stop)
            positions = position_map(scaling, precision).positions(X[rows])
            words = draw_words(row_words(seed_word(5, 0), part), scaling.stored_features) ^ DrawSet(0, epoch).mask
            book.base_digits, book.decay = precision.bits // 2 - 1, settings.decay if part is sections[-1] else NO_DECAY
            codes, drawn = base_codes(positions, precision), draw_codes(positions, precision, words)
            losses[-1] += book.epoch(codes.tolist(), drawn.tolist(), labels[rows].tolist())
    assert run.checkpoint().master.tolist() == [book.master]
    unit = loss_value(1) / len(X) * scaling.label_unit[0] ** 2
    np.testing.assert_allclose(run.loss, np.array(losses) * unit, rtol=1e-12)


def test_staleness_leaves_an_epoch_whole(seed):
    X, y = table(seed)
    SGDRegressor(Listed((2, 4)), epochs=4, staleness=1, device=FASTEST, random_state=1).fit(X, y)
    assert len(_Chooser.seen) == 4


@pytest.mark.parametrize(("rows", "batch", "sections"), [(5, 1, 5), (1000, 16, SECTIONS), (33, 32, 2), (31, 32, 1)])
def test_sections_have_complete_batches(rows, batch, sections):
    found = sections_of(rows, TrainingOptions(batch_size=batch))
    assert len(found) == sections
    assert [row for part in found for row in part] == list(range(rows))
    assert all(part.start % batch == 0 for part in found)
    assert max(map(len, found)) - min(map(len, found)) <= 2 * batch


def test_on_epoch_is_called_once_an_epoch(seed):
    X, y = table(seed)
    seen = []
    run = SGDRegressor(Listed((2, 4, 8)), epochs=3, device=FASTEST, random_state=1)
    run = run.fit(X, y, on_epoch=lambda *epoch: seen.append(epoch)).run_
    assert seen == list(enumerate(run.loss))


@pytest.mark.parametrize(
    "objective", [{}, {"loss": "huber", "penalty": "elasticnet", "alpha": 0.01, "l1_ratio": 0.3, "epsilon": 0.5}]
)
def test_a_policy_with_one_choice_equals_fixed_bits(seed, objective):
    X, y = table(seed)
    fixed, chosen = (
        SGDRegressor(bits, epochs=5, device=FASTEST, random_state=1, **objective).fit(X, y, snapshots=True).run_
        for bits in (4, FixedBits(4))
    )
    np.testing.assert_array_equal(chosen.snapshots, fixed.snapshots)
    np.testing.assert_allclose(chosen.loss, fixed.loss, rtol=1e-13)
    np.testing.assert_array_equal(chosen.bits, fixed.bits)
    model = (chosen.bytes_read - fixed.bytes_read) // (
        5 * SECTIONS - 1
    )  # each section after the first loads the model again
    assert 0 < model < 1000
    assert chosen.geometry == fixed.geometry
    assert chosen.saturations == fixed.saturations
    assert chosen.epoch_bytes.sum() == chosen.bytes_read
    assert chosen.cycles > fixed.cycles


def test_each_number_of_bits_has_its_own_automatic_rate(seed):
    """After three epochs the steps are those of a training with the last bits in all epochs."""
    X, y = table(seed)
    changing, fixed = (
        SGDRegressor(bits, epochs=3, device=FASTEST, random_state=1).fit(X, y).run_.checkpoint()
        for bits in (Listed((2, 4, 8)), 8)
    )
    (settings,) = changing.settings
    assert (replace(settings, phase=0),) == fixed.settings  # the phase counts the ridge of the fewer bits
    assert changing.options.learning_rate == fixed.options.learning_rate


def test_fewer_bits_take_fewer_cycles_and_the_policy_observes_them(seed):
    X, y = table(seed, rows=20 * SECTIONS, n=64)
    options = {"epochs": 3, "batch_size": 10, "device": FASTEST, "random_state": 0}
    run = SGDRegressor(Listed((*[2] * SECTIONS, *[8] * SECTIONS, 4)), **options).fit(X, y).run_
    losses, cycles, rms = np.array(_Chooser.seen).T.reshape(3, 3, SECTIONS)
    cycles = cycles.sum(1)
    assert cycles[0] < cycles[2] < cycles[1]
    assert cycles.sum() == run.cycles
    np.testing.assert_allclose(losses.mean(1), run.loss, rtol=1e-13)
    assert (rms > 0).all()
    assert run.bits.tolist() == [2, 8, 4]
    assert run.epoch_bytes[0] < run.epoch_bytes[2] < run.epoch_bytes[1]
    assert run.epoch_bytes.sum() == run.bytes_read


def test_mqgrad_chooses_repeatably_among_its_bits(seed):
    X, y = table(seed)
    runs = [
        SGDRegressor("mqgrad", epochs=12, device=FASTEST, random_state=seed % 1000).fit(X, y).run_ for _ in range(2)
    ]
    assert MQGRAD.choices[0] <= runs[0].bits.min() <= runs[0].bits.max() <= MQGRAD.choices[-1]
    assert "MQGrad(" in runs[0].settings["bit_policy"]
    np.testing.assert_array_equal(runs[0].bits, runs[1].bits)
    np.testing.assert_array_equal(runs[0].coef, runs[1].coef)
    assert len(runs[0].bits) == len(runs[0].loss) == len(runs[0].epoch_cycles) == 12


def test_runs_are_joined_in_order(seed):
    X, y = table(seed)
    one = SGDRegressor(4, epochs=2, device=FASTEST, random_state=1).fit(X, y).run_
    both = joined([one, one])
    assert both.cycles == 2 * one.cycles
    assert both.epoch_cycles.tolist() == [*one.epoch_cycles, *(one.epoch_cycles + one.cycles)]
    assert both.stalls.model == 2 * one.stalls.model
    assert both.bound.raw == 2 * one.bound.raw


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"bits": "few"}, "bits='few'"),
        ({"bits": "mqgrad", "sampling": "nearest"}, "'double'"),
        ({"bits": "mqgrad", "levels": "optimal"}, "'uniform'"),
        ({"bits": MQGrad(choices=(2, 3))}, "even"),
    ],
)
def test_unsupported_options_of_a_policy_are_refused(parameters, says):
    X, y = table(0)
    with pytest.raises(DataError, match=says):
        SGDRegressor(**parameters, device=FASTEST).fit(X, y)


def test_a_training_with_a_policy_cannot_be_resumed():
    X, y = table(0)
    model = SGDRegressor("mqgrad", epochs=2, device=FASTEST).fit(X, y)
    with pytest.raises(DataError, match="cannot be resumed"):
        model.fit(X, y, resume=model.run_.checkpoint())


def test_a_number_of_bits_is_not_a_policy():
    assert policy_of(4) is policy_of(np.int64(4)) is None
    assert policy_of("mqgrad") == MQGRAD
