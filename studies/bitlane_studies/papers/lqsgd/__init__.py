"""The claims of LQ-SGD, measured; one module for each claim."""
