"""Tune the learning rates of a factorization machine with Optuna, and stop bad trials early.

Every trial trains one pass over the data. After each window of rows it reports the log loss that these rows had before
they were learned; a trial that is worse than the median of the others at the same row is stopped.

    pip install 'bitlane[sparse]' optuna
    python examples/sparse_tuning.py --rows 500000
    python examples/sparse_tuning.py --data census32k        # or your files

What it prints at the end are options of `bitlane sparse train`.
"""

from __future__ import annotations

import argparse

import optuna

from bitlane.sparse import (
    AdaGrad,
    ClickLog,
    ClickLogSettings,
    ClickLogSource,
    ModelSpec,
    SparseModel,
    SparseTrainingOptions,
    Trainer,
    open_source,
)
from bitlane.sparse.training.windows import DivergedError

WINDOWS = 20  # reports of a trial on generated rows
STARTUP_TRIALS = 4  # that are never stopped
WARMUP_WINDOWS = 5  # in which no trial is stopped


def main() -> None:
    """Tune and print the best rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", help="files or a data set's name (default: a generated click log)")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the generated log (default: 200000)")
    parser.add_argument("--window-rows", type=int, help="rows between two reports (default: a twentieth of --rows)")
    parser.add_argument("--trials", type=int, default=20, help="trials (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    if arguments.data:
        source = open_source(arguments.data, seed=arguments.seed)
    else:
        log = ClickLog(ClickLogSettings(fields=8, keys=10_000, interactions=2.0, seed=arguments.seed))
        source = ClickLogSource(log, arguments.rows)
    options = SparseTrainingOptions(window_rows=arguments.window_rows or max(1, arguments.rows // WINDOWS))

    def objective(trial: optuna.Trial) -> float:
        linear = trial.suggest_float("linear_rate", 0.01, 2.0, log=True)
        factors = trial.suggest_float("learning_rate", 0.005, 1.0, log=True)
        model = SparseModel(ModelSpec("fm", linear=AdaGrad(linear), factors=AdaGrad(factors), seed=arguments.seed))

        def watch(window) -> bool:
            trial.report(window.quality.log_loss, step=window.rows_done // options.window_rows)
            return trial.should_prune()

        try:
            result = Trainer(model, source, options, on_window=[watch]).run()
        except DivergedError:
            raise optuna.TrialPruned from None
        if result.reason == "interrupted":
            raise KeyboardInterrupt
        if result.reason == "stopped":
            raise optuna.TrialPruned
        windows = result.windows[len(result.windows) // 2 :]  # the second half: the first is warming up
        return sum(each.quality.log_loss * each.quality.rows for each in windows) / sum(
            each.quality.rows for each in windows
        )

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=arguments.seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=WARMUP_WINDOWS),
    )
    study.optimize(objective, n_trials=arguments.trials, callbacks=[show])
    best = study.best_trial
    print(
        f"best log loss {best.value:.4f}: --model fm --linear-rate {best.params['linear_rate']:.3g} "
        f"--learning-rate {best.params['learning_rate']:.3g}"
    )


def show(_: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
    """Print a trial that ended."""
    rates = ", ".join(f"{name} {value:.3g}" for name, value in trial.params.items())
    pruned = trial.state == optuna.trial.TrialState.PRUNED
    ending = f"stopped after {trial.last_step} windows" if pruned else f"log loss {trial.value:.4f}"
    print(f"trial {trial.number + 1}: {rates}: {ending}", flush=True)


if __name__ == "__main__":
    main()
