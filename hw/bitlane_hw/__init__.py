"""The accelerator's RTL, in Amaranth: every block a `wiring.Component`, the whole in `accelerator`."""
