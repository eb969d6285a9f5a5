"""Small helpers that know nothing of bitlane's subject."""
