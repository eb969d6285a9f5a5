"""Gradient inversion: what the gradients that ranks send reveal about the images they were computed from."""
