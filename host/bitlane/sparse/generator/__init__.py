"""Click logs with planted truth, of any size."""
