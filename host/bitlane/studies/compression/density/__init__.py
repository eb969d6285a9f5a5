"""How MiCRO holds its density, with each controller: made-up gradients of many scales and shapes, bytes counted."""
