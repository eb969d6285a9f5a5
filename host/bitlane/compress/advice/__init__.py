"""Advice on how to average gradients: the bytes, the time and the loss of each candidate for a model and a link."""
