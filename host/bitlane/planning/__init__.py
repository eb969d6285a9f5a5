"""A training before it starts: its cycles, its buffers, and the area of a build, from sizes alone."""
