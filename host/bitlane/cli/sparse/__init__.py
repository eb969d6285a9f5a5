"""`bitlane sparse`: train, evaluate and look at sparse models."""
