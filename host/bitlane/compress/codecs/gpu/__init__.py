"""The codecs on a GPU, in Triton, with the same bytes as on the CPU. Imported only for tensors on a GPU."""
