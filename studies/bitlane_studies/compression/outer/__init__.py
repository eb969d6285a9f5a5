"""Bytes to equal loss at equal steps: DDP, rounds of DiLoCo and SparseLoCo with AdamW, Muon or SGD inside, and Dion."""
