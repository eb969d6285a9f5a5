"""LQ-SGD's claims, measured. A module a claim."""
