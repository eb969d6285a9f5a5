"""Semi-synchronous training: ranks train by themselves, and average their parameters every N steps."""
