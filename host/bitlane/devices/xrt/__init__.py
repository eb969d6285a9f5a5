"""Accelerator cards behind XRT, the runtime of AMD's cards."""
