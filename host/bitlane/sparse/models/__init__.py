"""LR, FM, FFM and networks: scores and gradients of a batch."""
