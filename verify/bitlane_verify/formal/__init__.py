"""Proofs of the RTL by k-induction: `python -m bitlane_verify.formal`."""
