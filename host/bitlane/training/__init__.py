"""From a data set to a trained model: options, launches, checkpoints and the result."""
