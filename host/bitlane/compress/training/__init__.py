"""`bitlane train-ddp`: several processes of this machine, with checkpoints of all or none."""
