"""The codecs on a GPU, in Triton, byte-identical to those on the CPU. Imported only for tensors on a GPU."""
