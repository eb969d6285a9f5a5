"""The codecs on a GPU, in Triton: the bytes are the CPU's. Imported only where a tensor lies on one."""
