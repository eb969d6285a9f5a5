"""Bytes to equal loss at equal steps: rounds of DiLoCo and SparseLoCo against DDP, with AdamW, Muon or SGD inside."""
