"""Bytes to equal loss at equal steps: DDP, rounds with AdamW, Muon or SGD inside, Dion and DeMo."""
