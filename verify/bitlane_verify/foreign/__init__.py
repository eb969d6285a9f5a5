"""Other people's checkers and cores around our RTL: wb2axip's AXI properties, verilog-axi's crossbar and memories.

Nothing of them is in this repository: `sources` downloads it.
"""
