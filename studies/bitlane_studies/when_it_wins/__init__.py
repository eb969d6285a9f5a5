"""When does the accelerator win? The same training on processors, on a GPU and, by prediction, on the accelerator."""
