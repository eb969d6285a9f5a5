"""One run of the accelerator on any device."""
