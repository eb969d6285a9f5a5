"""The claims of MiCRO, measured; one module for each claim."""
