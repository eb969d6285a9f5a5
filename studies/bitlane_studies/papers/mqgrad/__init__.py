"""The claims of MQGrad, measured; one module for each claim."""
