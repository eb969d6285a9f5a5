"""What proves and measures the RTL: proofs, random runs, coverage, mutants, netlists, bitstreams, benchmarks."""
