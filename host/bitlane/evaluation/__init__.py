"""Evaluation and comparison of models: losses, baselines, schedules."""
