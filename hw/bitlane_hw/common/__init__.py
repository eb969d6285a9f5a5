"""Payloads of streams, rounding and other small arithmetic, for every block."""
