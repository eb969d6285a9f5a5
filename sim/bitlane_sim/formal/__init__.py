"""Proofs of the RTL's blocks by induction: `python -m bitlane_sim.formal`."""
