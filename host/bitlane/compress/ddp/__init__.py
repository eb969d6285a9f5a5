"""Compressors under DistributedDataParallel: buckets, steps, states, statistics."""
