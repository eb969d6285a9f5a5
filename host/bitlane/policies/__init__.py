"""Bit policies: they choose the bits per value during training. They need only numpy."""
