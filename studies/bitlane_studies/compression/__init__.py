"""Studies of gradient compression: codec speed, bytes on the wire, density, and PyTorch's own hook."""
