"""The RTL of the accelerator, in Amaranth. Each block is a `wiring.Component`; the top is in `accelerator`."""
