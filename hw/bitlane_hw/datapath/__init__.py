"""Samples to gradients to weights: dot lanes, scalar stage, gradient and update lanes."""
