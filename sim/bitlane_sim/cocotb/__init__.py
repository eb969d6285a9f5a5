"""Testbenches with cocotb, whose bus agents are not ours: what their pytest and simulator sides share."""
