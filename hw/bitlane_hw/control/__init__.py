"""Control of a run: registers, checks of their values, phases, schedules, and the order of the beats."""
