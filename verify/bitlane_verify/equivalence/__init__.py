"""The RTL against the numpy reference, on random jobs."""
