"""Parameter servers: shards of parameters behind Arrow Flight, updated exactly once, recoverable to the bit."""
