"""Levels that minimise the variance of stochastic rounding (ZipML, section 3)."""

from .optimal import LevelsInfo, optimal_levels

__all__ = ["LevelsInfo", "optimal_levels"]
