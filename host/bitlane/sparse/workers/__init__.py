"""Workers of a training with parameter servers: minibatches, a cache of rows, compressed steps."""
