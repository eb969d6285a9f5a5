"""Outer loops whose ranks come and go: a coordinator, members, and `ElasticDiLoCo`."""
