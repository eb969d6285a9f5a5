"""`bitlane train-ddp`: training on several processes of this machine, with atomic checkpoints."""
