"""The encoder: raw rows in memory to base words and draw words, with the bits of the host's encoder."""
