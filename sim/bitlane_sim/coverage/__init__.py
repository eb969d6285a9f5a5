"""What the random runs exercise: declared bins, and lines, branches and toggles of the RTL (`make cov`)."""
