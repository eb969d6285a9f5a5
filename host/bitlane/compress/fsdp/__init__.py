"""Compressors with FSDP2 (`fully_shard`): shards are averaged over replicas, such as the nodes of a cluster."""
