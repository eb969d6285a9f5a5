"""Coverage of the RTL in random runs: declared bins, and lines, branches and toggles (`make cov`)."""
