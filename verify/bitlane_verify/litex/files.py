"""Names of the files that a simulation of the SoC reads and writes, and of the testbench's environment variables."""

VERILOG = "soc.v"  # the SoC and the accelerator
ADDRESSES = "csr.json"  # LiteX's map of registers and memories
DRAM_START = "dram_start.json"  # register writes that start the DRAM
MODEL = "model.npz"  # what the SoC has trained

FOLDER, SEED = "BENCH_FOLDER", "BENCH_SEED"
