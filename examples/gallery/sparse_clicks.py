"""A factorization machine on a click log
======================================

A generated click log has five thousand keys, such as users and items, and its clicks depend on pairs of keys. Logistic
regression (LR) has a weight for each key. A factorization machine (FM) also learns the pairs. Both predict each row
before they learn it.
"""

import matplotlib.pyplot as plt

from bitlane.sparse import (
    ClickLog,
    ClickLogSettings,
    ClickLogSource,
    ModelSpec,
    SparseModel,
    SparseTrainingOptions,
    Trainer,
)

log = ClickLog(ClickLogSettings(fields=6, keys=5000, interactions=2.0, seed=1))
for kind in ("lr", "fm"):
    model = SparseModel(ModelSpec(kind, seed=0))
    trainer = Trainer(model, ClickLogSource(log, 200_000), SparseTrainingOptions(window_rows=20_000))
    windows = trainer.run().windows
    auc = [window.quality.auc for window in windows]
    plt.plot([window.rows_done for window in windows], auc, marker=".", label=kind.upper())
    print(f"{kind.upper()}: AUC {auc[-1]:.3f} in the last window, {len(model.parameters.table):,} keys")
plt.xlabel("rows learned")
plt.ylabel("AUC of rows not yet learned")
plt.legend()
plt.show()
