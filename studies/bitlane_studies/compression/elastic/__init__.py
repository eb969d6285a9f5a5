"""Random deaths and joins in a training with `ElasticDiLoCo`: rounds, digests, time lost and loss."""
