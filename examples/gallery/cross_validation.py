"""Cross-validation with scikit-learn
==================================

The estimators follow scikit-learn's conventions, so they work in its tools. Cross-validation tells how many bits a data
set needs: the accuracy on rows that the model has not seen, with the spread over five folds.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bitlane import SGDClassifier

X, y = load_breast_cancer(return_X_y=True)
models = {f"{bits} bits": SGDClassifier(bits=bits, loss="log_loss", random_state=0) for bits in (2, 4, 6, 8)}
models["scikit-learn"] = make_pipeline(StandardScaler(), LogisticRegression())
for name, model in models.items():
    scores = cross_val_score(model, X, y, cv=5)
    print(f"{name:12} accuracy {scores.mean():.3f}, from {scores.min():.3f} to {scores.max():.3f}")
    plt.errorbar(name, scores.mean(), scores.std(), fmt="o", capsize=4, color="tab:blue")
plt.ylabel("accuracy on unseen rows")
plt.show()
