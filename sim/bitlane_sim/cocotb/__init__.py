"""Testbenches with cocotb and the bus agents of cocotbext-axi."""
