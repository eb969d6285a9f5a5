"""Measurements for papers and documentation."""
