"""`Auto`: choose the bits of an average during training, from the times and the noise that are measured in it."""
