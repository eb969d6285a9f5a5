"""Linear models with scikit-learn's conventions."""
