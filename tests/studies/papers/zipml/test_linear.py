"""The claims about linear models: verdicts on given losses, and trainings of toy size."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.zipml import comparison

from bitlane.contract.precision import Precision
from bitlane.devices import open_device
from bitlane.errors import DeviceError
from bitlane.evaluation.compare import SAMPLINGS, ComparisonData, train_as
from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.zipml import batches, convergence, end_to_end, fewest, speed
from bitlane_studies.papers.zipml.sizes import QUICK
from bitlane_studies.papers.zipml.tasks import TAILS, LinearTask, comparisons, real, synthetic, synthetic_data

TASK = LinearTask("a set", synthetic_data(20, 3, 0.1), synthetic(600, 4).schedule)
GOOD = [4.0, 2.0, 1.01, 1.0]


def case(judged):
    """Return a data set with the losses `judged` for double sampling with 6 bits, and good losses otherwise."""
    rest = [(name, bits, GOOD) for name in SAMPLINGS for bits in convergence.BITS if (name, bits) != ("double", 6)]
    return convergence.DatasetCase(TASK, [comparison(("full", 32, GOOD), *rest, ("double", 6, judged))] * 2)


@pytest.mark.parametrize(
    ("judged", "verdict"),
    [
        ([[4.0, 2.0, 1.005, 1.004]], ClaimVerdict.HELD),
        ([[4.0, 2.0, 1.5, 1.011]], ClaimVerdict.FAILED),
        ([GOOD, [4.0, 3.0, 2.0, np.inf]], ClaimVerdict.PARTLY),
    ],
)
def test_convergence_is_judged_by_loss(judged, verdict):
    claim = convergence.judge([case(each) for each in judged])
    assert claim.verdict is verdict
    assert ("diverges" in claim.measured) == (np.inf in judged[-1])


def test_convergence_is_judged_by_epochs():
    slow = [4.0, 3.0, 2.0, 1.9, 1.0]
    fast = [4.0, 2.0, 1.005, 1.0, 1.0]
    rest = [(name, bits, fast) for name in SAMPLINGS for bits in convergence.BITS if (name, bits) != ("double", 6)]
    found = convergence.DatasetCase(TASK, [comparison(("full", 32, fast), *rest, ("double", 6, slow))] * 2)
    assert found.epochs(1) == [3, 3] and found.epochs(found.index_of("double", 6)) == [5, 5]
    assert convergence.judge([found]).verdict is ClaimVerdict.FAILED


def curves(**few):
    """Return a data set with these losses in both of two seeds; u5 stands for uniform levels with 5 bits."""
    kinds = {"u": "uniform", "o": "optimal"}
    losses = {(kinds[name[0]], int(name[1:])): np.array([each, each]) for name, each in few.items()}
    missing = {method: np.array([GOOD, GOOD]) for method in fewest.METHODS if method not in losses}
    return fewest.LossCurves(TASK, np.array([GOOD, GOOD]), {**losses, **missing})


BAD, BUMPY = [4.0, 2.0, 1.0, 1.011], [4.0, 1.0, 1.02, 1.0]


def test_smooth_is_near_32_bits_and_never_rises():
    found = curves(u3=BAD, u4=BUMPY, u5=[4.0, 1.0, 1.009, 1.0], o4=BAD)
    assert [found.smooth(("uniform", bits)) for bits in (3, 4, 5)] == [False, False, True]
    assert [found.rise(("uniform", bits)) for bits in (3, 4, 5)] == pytest.approx([1.011, 1.02, 1.009])
    assert found.fewest("uniform") == 5
    assert found.fewest("optimal") == 5  # 3 bits are smooth, but do not count because 4 are not
    assert curves(o5=BAD).fewest("optimal") is None
    one_seed = curves()
    one_seed.few["uniform", 8][1] = BUMPY
    assert one_seed.fewest("uniform") is None


def test_bits_saved_are_judged():
    claimed, fewer, none = curves(u3=BAD, u4=BAD), curves(u3=BAD), curves()
    worse, never = curves(o3=BAD), curves(u8=BAD, o5=BAD)
    assert [each.saved for each in (claimed, fewer, none, worse, never)] == pytest.approx([5 / 3, 4 / 3, 1, 3 / 4, 0])
    verdicts = [fewest.judge(each).verdict for each in ([claimed, none], [claimed, worse], [fewer], [none], [never])]
    assert verdicts == [
        ClaimVerdict.HELD,
        ClaimVerdict.PARTLY,
        ClaimVerdict.PARTLY,
        ClaimVerdict.FAILED,
        ClaimVerdict.FAILED,
    ]
    assert "more than 8" in fewest.judge([never]).reason


def test_optimal_levels_are_used_in_training():
    """Nine optimal levels give other losses than nine uniform ones, after the same losses with 32 bits.

    Which is lower varies with the seed: stratified draws halve the loss of uniform levels on these exact labels.
    """
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (800, 4)) ** 5
    task = LinearTask(
        "tails", ComparisonData(X, X @ [1.0, 2.0, -1.0, 0.5]), replace(TASK.schedule, epochs=6, learning_rate=2.0)
    )
    found = fewest.curves(task, 2, lambda _: None)
    assert found.full[:, -1] == pytest.approx(1.0)
    assert (found.few["optimal", 5] != found.few["uniform", 5]).all()


def batch(size, full, *few):
    marks = [("double", each.bits, losses) for each, losses in zip(batches.FEW, few, strict=True)]
    return batches.BatchComparison(size, [comparison(("full", 32, full), *marks)] * 2)


def test_batches_are_judged_by_epochs():
    quick, slow, never = [1.05, 1.0, 1.0], [3.0, 2.0, 1.05], [3.0, 3.0, 2.0]
    as_claimed = batches.judge(batch(16, quick, slow, never), batch(256, slow, quick, [3.0, 3.0, 1.9]))
    against = batches.judge(batch(16, slow, quick, quick), batch(256, quick, slow, slow))
    half = batches.judge(batch(16, quick, quick, slow), batch(256, slow, slow, quick))
    assert [each.verdict for each in (as_claimed, against, half)] == [
        ClaimVerdict.HELD,
        ClaimVerdict.FAILED,
        ClaimVerdict.PARTLY,
    ]
    assert "never" in as_claimed.measured and "3 ± 0" in as_claimed.measured


def race(four, six):
    marks = [("double", 4, four), ("double", 6, six), ("double", 8, GOOD)]
    return speed.CycleRace(TASK, [comparison(("full", 32, GOOD), *marks)] * 2)


def test_speed_is_judged_by_cycles_to_the_loss():
    never = [4.0, 3.0, 2.0, 1.5]
    assert race(GOOD, GOOD).best() == 8.0
    assert race(never, GOOD).best() == pytest.approx(32 / 6)
    claims = [speed.judge([race(GOOD, GOOD)], False), speed.judge([race(never, GOOD)], True)]
    assert [each.verdict for each in claims] == [ClaimVerdict.HELD, ClaimVerdict.FAILED]
    assert speed.judge([race(GOOD, GOOD), race(never, GOOD)], True).verdict is ClaimVerdict.PARTLY
    assert "are predicted, because the RTL could not be built" in claims[0].measured
    assert (
        "one epoch of each precision on the simulated RTL has the same cycles" in claims[1].measured
        and "never" in claims[1].measured
    )


@pytest.mark.parametrize("wrong", ["cycles", "coef"])
def test_a_difference_of_the_rtl_is_reported(monkeypatch, wrong):
    emulator, rtl = open_device("emulator"), open_device("emulator")
    assert len(speed.check_on_rtl(TASK, speed.FEW, rtl, emulator)) == 1 + len(speed.FEW)

    def differs(data, precision, schedule, device):
        run = train_as(data, precision, schedule, device)
        found = SimpleNamespace(cycles=run.cycles, coef=run.coef)
        if device is rtl:
            setattr(found, wrong, getattr(found, wrong) + 1)
        return found

    monkeypatch.setattr(speed, "train_as", differs)
    with pytest.raises(
        DeviceError, match=r"a set, Precision\(bits=32.*cycles or weights of the RTL .* differ from the emulator"
    ):
        speed.check_on_rtl(TASK, speed.FEW, rtl, emulator)


# --- data ----------------------------------------------------------------------------------------
def test_a_seed_changes_the_order_and_draws_of_the_same_rows():
    device, messages = emulator(width=512), []
    found = comparisons(synthetic(600, 2), [Precision(4)], 2, device, messages.append)
    assert [each.title for each in found] == ["synthetic 100, noise 0.1"] * 2 and len(messages) == 2
    assert found[0].optimum == pytest.approx(found[1].optimum, rel=1e-9)
    assert found[0].results[1].loss != found[1].results[1].loss


def test_the_residual_variance_is_that_of_the_label_noise():
    data = synthetic_data(5_000, 20, 0.5)
    left = np.linalg.lstsq(data.X, data.y, rcond=None)[1][0] / len(data.y)
    assert left / data.y.var() == pytest.approx(0.25 / 1.25, rel=0.1)


def test_outliers_of_cod_rna_are_clipped(data_dir):
    task = real("cod-rna", QUICK.rows, 2)
    assert task.data.X.shape == (QUICK.rows, 8) and set(task.data.y) == {-1.0, 1.0}
    share = np.mean(task.data.X.max(axis=0) == task.data.X, axis=0)
    assert (share >= TAILS[0] / 2).all()


@pytest.mark.parametrize(("last", "verdict"), [(1.009, ClaimVerdict.HELD), (1.011, ClaimVerdict.FAILED)])
def test_all_parts_are_judged_by_the_mean_final_loss_of_six_bits(last, verdict):
    few = {bits: np.array([[3.0, 1.0], [3.0, 2 * last - 1]]) for bits in end_to_end.BITS}
    few[4] = 9 * few[4]
    claim = end_to_end.judge([end_to_end.PartsCurves(TASK, np.array([[2.0, 1.0]] * 2), few)])
    assert claim.verdict is verdict and "a set" in claim.reason


def test_all_parts_of_few_bits_are_trained(seed):
    """Few bits end near full precision on a toy set; the curves differ, so all three parts are rounded."""
    task = LinearTask("a set", synthetic_data(900, 5, 0.5), synthetic(900, 6).schedule)
    found = end_to_end.curves(task, 1, print)
    assert found.full.shape == (1, 6) and found.full[0, -1] == 1.0
    assert all(abs(found.few[bits][0, -1] - 1) < 0.3 and (found.few[bits] != found.full).all() for bits in (8, 6))
