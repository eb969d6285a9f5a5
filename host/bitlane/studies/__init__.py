"""Measurements for papers and documentation. The product imports nothing from here."""
