"""Compressors with `DistributedDataParallel`: buckets, steps, saved states, statistics."""
