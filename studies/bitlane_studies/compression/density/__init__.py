"""The density of MiCRO with each controller, on synthetic gradients of many scales and distributions."""
