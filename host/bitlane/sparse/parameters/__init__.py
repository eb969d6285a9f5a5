"""What a model learns: rows by key, matrices, and statistics of keys, each with an optimizer."""
