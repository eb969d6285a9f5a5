"""Policies that choose the bits while a training runs. They need numpy alone."""
