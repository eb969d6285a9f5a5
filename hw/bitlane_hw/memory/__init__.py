"""The memory port: bursts, streams of samples, models in and out."""
