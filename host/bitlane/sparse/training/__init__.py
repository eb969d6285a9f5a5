"""The training loop, progressive validation, checkpoints and logs."""
