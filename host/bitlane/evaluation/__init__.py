"""What models are worth, and how they compare: losses, baselines, schedules."""
