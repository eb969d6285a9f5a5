"""The accelerator on a Zynq-7000: its AXI4 ports behind the AXI3 ports of the processing system."""
