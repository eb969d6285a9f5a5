"""Whether advice names the way that is fastest at an equal loss: trainings with every candidate on real links."""
