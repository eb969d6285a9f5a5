"""Linear models at their optimum, from rows of few bits."""
