"""DiLoCo against an average in each step: held-out loss and bytes at the socket, for images and for text."""
