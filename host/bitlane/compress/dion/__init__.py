"""Dion: an optimizer whose ranks exchange low-rank factors instead of gradients."""
