"""From samples to gradients to weights: dot products, scalar stage, gradient pass, update lanes."""
