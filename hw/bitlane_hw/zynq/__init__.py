"""The accelerator on a Zynq-7000: adapters from its AXI4 ports to the AXI3 ports of the processing system."""
