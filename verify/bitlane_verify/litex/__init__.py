"""The accelerator in a LiteX SoC, with LiteDRAM as its memory controller, trains digits in simulation."""
