"""Names of files that several rooms read or write."""

MODEL_NAME = "model.npz"  # a trained model, in a run folder
