"""A model across several processes or machines: servers of weights, each of one shard, and a front that asks them."""
