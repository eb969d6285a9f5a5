"""The run: registers, checks of a configuration, phases, schedules and the order of work."""
